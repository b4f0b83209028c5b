#include <algorithm>
#include <array>
#include <limits>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "support/count_allocations.hpp"
#include "support/mpi_world.hpp"
#include "support/pmpi_bytes.hpp"
#include "support/wire_values.hpp"

// Weights and gradients that travel as bfloat16: what arrives, and how many bytes that takes.
namespace matrixfsdp {
namespace {

using testing::all_tables;
using testing::rounded;
using testing::same;
using testing::wire_value_at;
using testing::world;

const OperationLabel label{"counted", "block.0", "forward"};

constexpr std::array all_algorithms{CollectiveAlgorithm::direct,       CollectiveAlgorithm::chain,
                                    CollectiveAlgorithm::scatter,      CollectiveAlgorithm::tree,
                                    CollectiveAlgorithm::hierarchical, CollectiveAlgorithm::padded,
                                    CollectiveAlgorithm::allgatherv};

/// In blocks of 700 elements, two ranks on a node.
Unshard unshard_of(CollectiveAlgorithm algorithm, const SegmentTable& table, DType wire) {
  return prepare_unshard(algorithm, table, make_topology(world().size(), 2), world().rank(), 700, wire);
}

Tensor<float> shard_of(const SegmentTable& table, std::uint64_t stream) {
  Tensor<float> shard = make_tensor<float>("shard", table.shard_size(world().rank()));
  std::size_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(world().rank())]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i)
      shard(done++) = wire_value_at(stream, i);
  }
  return shard;
}

Tensor<float> gradient_of(std::int64_t size, std::int64_t micro_batch) {
  Tensor<float> gradient = make_tensor<float>("gradient", size);
  for (std::int64_t i = 0; i < size; ++i)
    gradient(static_cast<std::size_t>(i)) = wire_value_at(static_cast<std::uint64_t>(micro_batch), i);
  return gradient;
}

/// Bytes that this rank has sent for `purpose`; MPI's own collectives are not seen by the interposer.
struct Sent {
  explicit Sent(Purpose purpose_) : purpose(purpose_) {}
  [[nodiscard]] std::int64_t counted() const { return world().bytes()[purpose] - library; }
  [[nodiscard]] std::int64_t interposed() const { return matrixfsdp_pmpi_bytes() - interposer; }

  Purpose purpose;
  std::int64_t library = world().bytes()[purpose];
  std::int64_t interposer = matrixfsdp_pmpi_bytes();
};

void expect_rounded(const Tensor<float>& buffer, std::uint64_t stream, const std::string& what) {
  for (std::size_t i = 0; i < buffer.size(); ++i) {
    const float expected = rounded(wire_value_at(stream, static_cast<std::int64_t>(i)));
    ASSERT_TRUE(same(buffer(i), expected)) << what << ", element " << i << ": " << buffer(i) << ", not " << expected;
  }
}

// Every element is what its owner rounded, on the owner too, whichever way it went; half of float32's bytes, exactly.
TEST(CommWire, every_algorithm_brings_rounded_values_of_every_table_in_half_the_bytes) {
  for (const CollectiveAlgorithm algorithm : all_algorithms) {
    for (const auto& [name, table] : all_tables(world().size())) {
      const std::string what = fmt::format("{}, {}", name_of(algorithm), name);
      const Tensor<float> shard = shard_of(table, 1);
      const Tensor<float> buffer = make_tensor<float>("buffer", table.size);
      Kokkos::deep_copy(buffer, std::numeric_limits<float>::quiet_NaN());
      const Sent whole(Purpose::unshard);
      gather(world(), Purpose::unshard, unshard_of(algorithm, table, DType::float32), shard, buffer, label).wait();
      const std::int64_t bytes = whole.counted();
      Kokkos::deep_copy(buffer, std::numeric_limits<float>::quiet_NaN());
      const Sent half(Purpose::unshard);
      gather(world(), Purpose::unshard, unshard_of(algorithm, table, DType::bfloat16), shard, buffer, label).wait();
      expect_rounded(buffer, 1, what);
      EXPECT_EQ(2 * half.counted(), bytes) << what;
      if (algorithm != CollectiveAlgorithm::allgatherv) {
        EXPECT_EQ(half.interposed(), half.counted()) << what;
      }
      const Tensor<float> again = shard_of(table, 1);
      for (std::size_t i = 0; i < shard.size(); ++i)
        ASSERT_TRUE(same(shard(i), again(i))) << what << ": the master weights have changed";
    }
  }
}

TEST(CommWire, gathers_of_both_kinds_under_way_at_once_keep_apart) {
  const SegmentTable table = testing::dealt_table(world().size(), 5, 4999);
  std::vector<Tensor<float>> shards;
  std::vector<Tensor<float>> buffers;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < 2 * all_algorithms.size(); ++i) {
    shards.push_back(shard_of(table, i));
    buffers.push_back(make_tensor<float>("buffer", table.size));
    const DType wire = i % 2 == 0 ? DType::bfloat16 : DType::float32;
    requests.push_back(gather(world(), Purpose::unshard, unshard_of(all_algorithms[i / 2], table, wire), shards.back(),
                              buffers.back(), label));
  }
  for (std::size_t i = requests.size(); i-- > 0;)
    requests[i].wait();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (i % 2 == 0) {
      expect_rounded(buffers[i], i, std::string(name_of(all_algorithms[i / 2])));
      continue;
    }
    for (std::size_t e = 0; e < buffers[i].size(); ++e)
      ASSERT_TRUE(same(buffers[i](e), wire_value_at(i, static_cast<std::int64_t>(e)))) << "float32, element " << e;
  }
}

// CASES 9, 27: the left fold of gradients that were each rounded once, in float32, whoever owns and whoever sums.
TEST(CommWire, every_reduce_is_the_left_fold_of_rounded_gradients) {
  const int rank = world().rank();
  using enum CollectiveAlgorithm;
  for (const CollectiveAlgorithm algorithm : {direct, scatter, chain, tree, hierarchical}) {
    for (const auto& [name, table] : all_tables(world().size())) {
      for (const std::int64_t passes : {1, 3}) {
        const std::string what = fmt::format("{}, {}, {} passes", name_of(algorithm), name, passes);
        const Reduce prepared = prepare_reduce(algorithm, table, passes, DType::bfloat16);
        const Tensor<float> sums = make_tensor<float>("sums", running_sum_elements(prepared, rank));
        const Tensor<float> shard = make_tensor<float>("shard", table.shard_size(rank));
        Kokkos::deep_copy(sums, std::numeric_limits<float>::quiet_NaN());
        Kokkos::deep_copy(shard, std::numeric_limits<float>::quiet_NaN());
        const Sent sent(Purpose::reduce);
        for (std::int64_t pass = 0; pass < passes; ++pass) {
          reduce(world(), prepared, {pass, pass + 1 == passes}, gradient_of(table.size, pass * world().size() + rank),
                 sums, shard, label)
              .wait();
        }
        std::size_t at = 0;
        for (const Interval& interval : table.intervals[static_cast<std::size_t>(rank)]) {
          for (std::int64_t i = interval.begin; i < interval.end; ++i) {
            const float expected = testing::folded_rounded(i, passes * world().size());
            ASSERT_TRUE(same(shard(at), expected))
                << what << ", element " << i << ": " << shard(at) << ", not " << expected;
            ++at;
          }
        }
        std::int64_t gradients = 0;
        for (const auto& blocks : prepared.blocks) {
          for (const Piece& block : blocks)
            gradients += block.holder != rank ? passes * block.elements.size() : 0;
        }
        if (algorithm == direct || algorithm == scatter) {
          EXPECT_EQ(sent.counted(), 2 * gradients + 4 * running_sum_elements(prepared, rank)) << what;
        }
        EXPECT_EQ(sent.interposed(), sent.counted()) << what;
      }
    }
  }
}

// The plan's memory prediction uses this formula: it must be what is allocated, half of float32's.
TEST(CommWire, staging_is_halved) {
  for (const std::int64_t blocks : {0, 1, 5}) {
    const std::int64_t size = blocks * exchange_block * world().size() + 7 * (blocks + 1);
    const SegmentTable table = even_table(size, world().size());
    const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, table, 1, DType::bfloat16);
    const Tensor<float> gradient = gradient_of(size, world().rank());
    const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(world().rank()));
    const test::CountAllocations allocations;
    Request request = reduce(world(), prepared, {}, gradient, {}, shard, label);
    const std::int64_t allocated = allocations.bytes();
    request.wait();
    const std::int64_t expected = reduce_staging_bytes(prepared, world().rank());
    EXPECT_EQ(allocated, (expected + 7) / 8 * 8) << "size " << size;  // Kokkos rounds up to 8
    EXPECT_EQ(expected,
              2 * (world().size() - 1) * std::min<std::int64_t>(reduce_room, table.shard_size(world().rank())));
  }
}

TEST(CommWire, a_gather_allocates_nothing_but_padding) {
  const SegmentTable table = testing::dealt_table(world().size(), 5, 4999);
  const Tensor<float> shard = shard_of(table, 1);
  const Tensor<float> buffer = make_tensor<float>("buffer", table.size);
  for (const CollectiveAlgorithm algorithm : all_algorithms) {
    const Unshard unshard = unshard_of(algorithm, table, DType::bfloat16);
    const test::CountAllocations allocations;
    gather(world(), Purpose::unshard, unshard, shard, buffer, label).wait();
    EXPECT_EQ(allocations.bytes(), 0) << name_of(algorithm);
  }
}

// Rounding would be lost on the shard, which must keep its values, so it may not lie in the buffer.
TEST(CommWire, a_shard_in_the_buffer_is_refused) {
  const SegmentTable table = even_table(10 * world().size(), world().size());
  const Tensor<float> buffer = make_zeros<float>("buffer", table.size);
  const Unshard unshard = unshard_of(CollectiveAlgorithm::direct, table, DType::bfloat16);
  for (const std::int64_t begin : {std::int64_t{0}, table.size - 10}) {
    try {
      gather(world(), Purpose::unshard, unshard, slice(buffer, begin, 10), buffer, label);
      ADD_FAILURE() << "taken";
    } catch (const ContractError& error) {
      EXPECT_NE(std::string(error.what()).find("the shard lies in the buffer"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace matrixfsdp

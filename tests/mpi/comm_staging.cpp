#include <array>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"
#include "support/pmpi_bytes.hpp"

// Copies in host memory for MPI (GpuAware::off): what a device's tensors need where the library does not know devices.
namespace matrixfsdp {
namespace {

using testing::folded;
using testing::gradient_of;
using testing::nans;
using testing::value_at;
using testing::world;

const OperationLabel label{"staged", "block.0", "forward"};

/// Owners' segments and a tail, in blocks and parts of blocks.
SegmentTable table() {
  return testing::dealt_table(world().size(), 5, 5000);
}

/// Elements that this rank owns, in their order.
std::vector<std::int64_t> own_elements() {
  std::vector<std::int64_t> elements;
  const SegmentTable all = table();
  for (const Interval& interval : all.intervals[static_cast<std::size_t>(world().rank())]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i)
      elements.push_back(i);
  }
  return elements;
}

Tensor<float> filled_shard() {
  const std::vector<std::int64_t> elements = own_elements();
  Tensor<float> shard = nans(static_cast<std::int64_t>(elements.size()));
  for (std::size_t i = 0; i < elements.size(); ++i)
    shard(i) = value_at(1, elements[i]);
  return shard;
}

void watch(const Tensor<float>& tensor) {
  matrixfsdp_pmpi_watch(tensor.data(), 4 * static_cast<long long>(tensor.size()));
}

long long of_all_ranks(long long calls) {
  long long sum = 0;
  for (const long long theirs : all_gather_value(world(), Purpose::other, calls, label))
    sum += theirs;
  return sum;
}

/// Calls that were given an address in the buffer, on all ranks; bits are those of the shards.
long long calls_of_gather(Communicator& communicator, CollectiveAlgorithm algorithm) {
  const Tensor<float> buffer = nans(table().size);
  watch(buffer);
  gather(communicator, Purpose::unshard, testing::unshard_of(communicator, table(), algorithm, 2, 700), filled_shard(),
         buffer, label)
      .wait();
  for (std::size_t i = 0; i < buffer.size(); ++i)
    EXPECT_EQ(buffer(i), value_at(1, static_cast<std::int64_t>(i))) << name_of(algorithm) << ", element " << i;
  return of_all_ranks(matrixfsdp_pmpi_watched_calls());
}

long long calls_of_reduce(Communicator& communicator, CollectiveAlgorithm algorithm) {
  const Reduce prepared = prepare_reduce(algorithm, table(), make_topology(world().size(), 2));
  const Tensor<float> gradient = gradient_of(table().size, world().rank());
  const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
  const Tensor<float> shard = nans(table().shard_size(world().rank()));
  watch(gradient);
  reduce(communicator, prepared, {}, gradient, sums, shard, label).wait();
  const std::vector<std::int64_t> elements = own_elements();
  for (std::size_t i = 0; i < elements.size(); ++i)
    EXPECT_EQ(shard(i), folded(elements[i], world().size())) << name_of(algorithm) << ", element " << elements[i];
  return of_all_ranks(matrixfsdp_pmpi_watched_calls());
}

constexpr std::array unshard_algorithms{CollectiveAlgorithm::direct,  CollectiveAlgorithm::chain,
                                        CollectiveAlgorithm::scatter, CollectiveAlgorithm::tree,
                                        CollectiveAlgorithm::padded,  CollectiveAlgorithm::allgatherv};
constexpr std::array reduce_algorithms{CollectiveAlgorithm::direct, CollectiveAlgorithm::chain,
                                       CollectiveAlgorithm::scatter, CollectiveAlgorithm::tree};

TEST(CommStaging, copies_carry_the_same_bits_and_bytes_and_tensors_stay_unknown_to_mpi) {
  Communicator direct = mpi::duplicate(world());
  Communicator staged = mpi::duplicate(world());
  mpi::set_gpu_aware(direct, mpi::GpuAware::on);
  mpi::set_gpu_aware(staged, mpi::GpuAware::off);
  EXPECT_TRUE(mpi::stages_messages(staged));
  EXPECT_FALSE(mpi::stages_messages(direct));
  const bool alone = world().size() == 1;
  for (const CollectiveAlgorithm algorithm : unshard_algorithms) {
    EXPECT_EQ(calls_of_gather(direct, algorithm) > 0, !alone || algorithm == CollectiveAlgorithm::allgatherv)
        << name_of(algorithm);
    EXPECT_EQ(calls_of_gather(staged, algorithm), 0) << name_of(algorithm);
  }
  for (const CollectiveAlgorithm algorithm : reduce_algorithms) {
    EXPECT_EQ(calls_of_reduce(direct, algorithm) > 0, !alone) << name_of(algorithm);
    EXPECT_EQ(calls_of_reduce(staged, algorithm), 0) << name_of(algorithm);
  }
  EXPECT_EQ(staged.bytes().total(), direct.bytes().total());
}

TEST(CommStaging, duplicates_start_like_the_original) {
  Communicator first = mpi::duplicate(world());
  mpi::set_gpu_aware(first, mpi::GpuAware::off);
  EXPECT_TRUE(mpi::stages_messages(mpi::duplicate(first)));
  mpi::set_gpu_aware(first, mpi::GpuAware::on);
  EXPECT_FALSE(mpi::stages_messages(mpi::duplicate(first)));
  mpi::set_gpu_aware(first, mpi::GpuAware::automatic);
  EXPECT_EQ(mpi::stages_messages(first), mpi::stages_messages(world()));
}

// Words of bfloat16 stand in one half of the buffer.
TEST(CommStaging, rounded_words_arrive_too) {
  Communicator staged = mpi::duplicate(world());
  mpi::set_gpu_aware(staged, mpi::GpuAware::off);
  for (const auto algorithm : {CollectiveAlgorithm::chain, CollectiveAlgorithm::allgatherv}) {
    std::array<Tensor<float>, 2> buffers{nans(table().size), nans(table().size)};
    for (std::size_t i = 0; i < 2; ++i) {
      Unshard unshard = testing::unshard_of(staged, table(), algorithm);
      unshard.wire = DType::bfloat16;
      gather(i == 0 ? world() : staged, Purpose::unshard, unshard, filled_shard(), buffers[i], label).wait();
    }
    for (std::size_t i = 0; i < buffers[0].size(); ++i)
      ASSERT_EQ(buffers[0](i), buffers[1](i)) << name_of(algorithm) << ", element " << i;
  }
}

TEST(CommStaging, other_names_are_refused) {
  for (const auto gpu_aware : {mpi::GpuAware::automatic, mpi::GpuAware::on, mpi::GpuAware::off})
    EXPECT_EQ(mpi::parse_gpu_aware(mpi::name_of(gpu_aware)), gpu_aware);
  try {
    mpi::parse_gpu_aware("yes");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "GPU-aware MPI 'yes': expected one of auto, on, off");
  }
}

}  // namespace
}  // namespace matrixfsdp

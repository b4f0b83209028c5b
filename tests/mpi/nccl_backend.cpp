#include <array>
#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/channel.hpp"
#include "comm/nccl/kernels.hpp"
#include "support/comm_tables.hpp"
#include "support/messages.hpp"
#include "support/nccl_attached.hpp"

/// What holds with the host double and with real devices alike.
namespace matrixfsdp {
namespace {

using nccl::GatherBy;
using test::mentions;
using test::message_of;
using testing::all_tables;
using testing::Attached;
using testing::folded;
using testing::gradient_of;
using testing::nans;
using testing::unshard_of;
using testing::value_at;
using testing::world;

const OperationLabel unshard_label{"unshard", "block.0", "forward"};
const OperationLabel reduce_label{"reduce", "block.0", "backward"};
constexpr std::array ways{GatherBy::automatic, GatherBy::send_recv, GatherBy::broadcast};

/// This rank's shard of the buffer whose element i is value_at(stream, i).
Tensor<float> shard_of(const SegmentTable& table, std::uint64_t stream) {
  Tensor<float> shard = make_tensor<float>("shard", table.shard_size(world().rank()));
  std::size_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(world().rank())]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i)
      shard(done++) = value_at(stream, i);
  }
  return shard;
}

void expect_values(const Tensor<float>& buffer, std::uint64_t stream, const std::string& name) {
  for (std::size_t i = 0; i < buffer.size(); ++i)
    ASSERT_EQ(buffer(i), value_at(stream, static_cast<std::int64_t>(i))) << name << ", element " << i;
}

/// Tables that must be cut into many groups, too.
std::vector<nccl::Options> option_sets() {
  std::vector<nccl::Options> all;
  for (const GatherBy way : ways) {
    all.push_back({way, nccl::most_group_operations});
    all.push_back({way, 2});
  }
  return all;
}

std::string text_of(const nccl::Options& options) {
  return fmt::format("gather by {}, {} operations in a group", static_cast<int>(options.gather),
                     options.group_operations);
}

// CASES 1, 44, 45: every table, in every way, with the bytes that MPI counts.
TEST(NcclBackend, every_table_arrives_in_place_with_exact_bytes) {
  for (const nccl::Options& options : option_sets()) {
    Attached nccl(options);
    MATRIXFSDP_NEED_NCCL(nccl);
    for (const auto& [table_name, table] : all_tables(world().size())) {
      const std::string name = fmt::format("{}, {}", table_name, text_of(options));
      const Tensor<float> shard = shard_of(table, 1);
      const Tensor<float> buffer = nans(table.size);
      const Unshard unshard = unshard_of(world(), table);
      const std::int64_t before = nccl.communicator.bytes()[Purpose::unshard];
      gather(nccl.communicator, Purpose::unshard, unshard, shard, buffer, unshard_label).wait();
      expect_values(buffer, 1, name);
      const std::int64_t mpi_before = world().bytes()[Purpose::unshard];
      gather(world(), Purpose::unshard, unshard, shard, nans(table.size), unshard_label).wait();
      EXPECT_EQ(nccl.communicator.bytes()[Purpose::unshard] - before, world().bytes()[Purpose::unshard] - mpi_before)
          << name;
    }
  }
}

/// All passes of a reduce, and the shard that is left.
Tensor<float> reduced(Communicator& communicator, const Reduce& prepared, std::int64_t passes) {
  const int rank = communicator.rank();
  const Tensor<float> sums = nans(running_sum_elements(prepared, rank));
  const Tensor<float> shard = nans(prepared.table.shard_size(rank));
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    reduce(communicator, prepared, {pass, pass + 1 == passes},
           gradient_of(prepared.table.size, pass * world().size() + rank), sums, shard, reduce_label)
        .wait();
  }
  return shard;
}

// CASES 1, 8, 9, 27, 44, 45: whoever owns and whoever sums, the bits and the bytes of MPI.
TEST(NcclBackend, every_table_and_number_of_passes_gives_the_bits_of_mpi) {
  for (const int operations : {nccl::most_group_operations, 2}) {
    Attached nccl({GatherBy::automatic, operations});
    MATRIXFSDP_NEED_NCCL(nccl);
    for (const CollectiveAlgorithm algorithm : {CollectiveAlgorithm::direct, CollectiveAlgorithm::scatter}) {
      for (const auto& [table_name, table] : all_tables(world().size())) {
        for (const std::int64_t passes : {1, 3}) {
          const std::string name = fmt::format("{}, {}, {} passes", name_of(algorithm), table_name, passes);
          const Reduce prepared = prepare_reduce(algorithm, table, passes);
          const std::int64_t before = nccl.communicator.bytes()[Purpose::reduce];
          const Tensor<float> shard = reduced(nccl.communicator, prepared, passes);
          const std::int64_t mpi_before = world().bytes()[Purpose::reduce];
          const Tensor<float> expected = reduced(world(), prepared, passes);
          for (std::size_t i = 0; i < expected.size(); ++i)
            ASSERT_EQ(shard(i), expected(i)) << name << ", element " << i;
          EXPECT_EQ(nccl.communicator.bytes()[Purpose::reduce] - before, world().bytes()[Purpose::reduce] - mpi_before)
              << name;
        }
      }
    }
  }
}

// What the backend does not carry goes by MPI: sums that pass through ranks, or stay open after a pass. It carries
// groups that end with a pass. The same bits and bytes.
TEST(NcclBackend, every_algorithm_and_group_of_the_sum_gives_the_bits_of_mpi) {
  using enum CollectiveAlgorithm;
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  const int ranks = world().size();
  const SegmentTable table = testing::dealt_table(ranks, 5, 3 * exchange_block + 5);
  for (const CollectiveAlgorithm algorithm : {direct, scatter, chain, tree, hierarchical}) {
    for (const std::int64_t group : {1, ranks, 2 * ranks}) {
      const std::string name = fmt::format("{}, groups of {}", name_of(algorithm), group);
      const Reduce prepared = prepare_reduce(algorithm, table, make_topology(ranks, 2), {4, DType::float32, group});
      const std::int64_t before = nccl.communicator.bytes()[Purpose::reduce];
      const Tensor<float> shard = reduced(nccl.communicator, prepared, 4);
      const std::int64_t mpi_before = world().bytes()[Purpose::reduce];
      const Tensor<float> expected = reduced(world(), prepared, 4);
      for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_EQ(shard(i), expected(i)) << name << ", element " << i;
      EXPECT_EQ(nccl.communicator.bytes()[Purpose::reduce] - before, world().bytes()[Purpose::reduce] - mpi_before)
          << name;
    }
  }
}

// Pieces of one owner that a holder has next to each other in its sums need not be neighbours in the owner's shard.
TEST(NcclBackend, a_holder_of_scattered_pieces_brings_each_to_its_place) {
  if (world().size() == 1) return;
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  std::vector<std::int64_t> owned(static_cast<std::size_t>(world().size()), 0);
  owned[0] = 50;
  Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, testing::owner_table(owned, 0));
  for (auto& blocks : prepared.blocks)
    blocks.clear();
  for (std::int64_t i = 0; i < 5; ++i) {
    const int holder = static_cast<int>(i % 2);
    prepared.blocks[static_cast<std::size_t>(holder)].push_back({{10 * i, 10 * i + 10}, 0, holder});
  }
  const Tensor<float> shard = reduced(nccl.communicator, prepared, 2);
  for (std::size_t i = 0; i < shard.size(); ++i)
    ASSERT_EQ(shard(i), folded(static_cast<std::int64_t>(i), std::int64_t{2} * world().size())) << "element " << i;
}

// The left fold itself, not only what MPI makes of it.
TEST(NcclBackend, sums_are_the_left_fold) {
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  const SegmentTable table = testing::dealt_table(world().size(), 5, 3 * exchange_block + 5);
  const Tensor<float> shard = reduced(nccl.communicator, prepare_reduce(CollectiveAlgorithm::scatter, table, 3), 3);
  std::size_t at = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(world().rank())]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i)
      ASSERT_EQ(shard(at++), folded(i, std::int64_t{3} * world().size())) << "element " << i;
  }
}

// Many under way at once, small messages of MPI between them, completed in another order than issued.
TEST(NcclBackend, operations_under_way_at_once_keep_apart) {
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  const auto tables = all_tables(world().size());
  std::vector<Tensor<float>> shards;
  std::vector<Tensor<float>> buffers;
  std::vector<Request> requests;
  const SegmentTable even = even_table(3 * exchange_block * world().size() + 1, world().size());
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, even);
  const Tensor<float> gradient = gradient_of(even.size, world().rank());
  const Tensor<float> sums = nans(even.shard_size(world().rank()));
  for (std::size_t i = 0; i < tables.size(); ++i) {
    shards.push_back(shard_of(tables[i].table, i));
    buffers.push_back(nans(tables[i].table.size));
    requests.push_back(gather(nccl.communicator, Purpose::unshard, unshard_of(world(), tables[i].table), shards[i],
                              buffers[i], unshard_label));
    if (i == tables.size() / 2)
      requests.push_back(reduce(nccl.communicator, prepared, {}, gradient, {}, sums, reduce_label));
  }
  nccl.communicator.barrier({"barrier between", "", ""});
  for (std::size_t i = requests.size(); i-- > 0;) {
    requests[i].wait();
    EXPECT_TRUE(requests[i].test());
  }
  for (std::size_t i = 0; i < buffers.size(); ++i)
    expect_values(buffers[i], i, tables[i].name);
  const Interval& mine = even.intervals[static_cast<std::size_t>(world().rank())][0];
  for (std::int64_t i = mine.begin; i < mine.end; ++i)
    ASSERT_EQ(sums(static_cast<std::size_t>(i - mine.begin)), folded(i, world().size()));
}

/// What a kernel writes that has been started and has not yet ended.
struct LateWrite {
  Tensor<float> to;
  Tensor<float> from;
};

void CUDART_CB write_late(void* data) {
  const auto& late = *static_cast<LateWrite*>(data);
  for (std::size_t i = 0; i < late.to.size(); ++i)
    late.to(i) = late.from(i);
}

// CASES 40: a kernel that still writes what is sent is waited for, on the stream.
TEST(NcclBackend, kernels_that_write_what_is_sent_are_waited_for) {
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  const SegmentTable table = testing::dealt_table(world().size(), 5, 1000);
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::scatter, table);
  for (int i = 0; i < 20; ++i) {
    const auto stream = static_cast<std::uint64_t>(i);
    LateWrite weights{nans(table.shard_size(world().rank())), shard_of(table, stream)};
    LateWrite gradients{nans(table.size), gradient_of(table.size, world().rank())};
    const Tensor<float> buffer = nans(table.size);
    const Tensor<float> shard = nans(table.shard_size(world().rank()));
    const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
    ASSERT_EQ(cudaLaunchHostFunc(nccl::kernel_stream(), write_late, &weights), cudaSuccess);
    Request unshard =
        gather(nccl.communicator, Purpose::unshard, unshard_of(world(), table), weights.to, buffer, unshard_label);
    ASSERT_EQ(cudaLaunchHostFunc(nccl::kernel_stream(), write_late, &gradients), cudaSuccess);
    Request reduction = reduce(nccl.communicator, prepared, {}, gradients.to, sums, shard, reduce_label);
    unshard.wait();
    reduction.wait();
    expect_values(buffer, stream, "written late");
    std::size_t at = 0;
    for (const Interval& interval : table.intervals[static_cast<std::size_t>(world().rank())]) {
      for (std::int64_t element = interval.begin; element < interval.end; ++element)
        ASSERT_EQ(shard(at++), folded(element, world().size()));
    }
  }
}

// CASES 37: 500 steps; requests own what their work reads, whatever memory is taken and given back meanwhile.
TEST(NcclBackend, five_hundred_steps_with_churning_memory) {
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  const std::int64_t size = 4096 * world().size() + 5;
  const SegmentTable table = even_table(size, world().size());
  const Interval& mine = table.intervals[static_cast<std::size_t>(world().rank())][0];
  const Tensor<float> gradient = gradient_of(size, world().rank());
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, table);
  for (int step = 0; step < 500; ++step) {
    const Tensor<float> sums = nans(mine.size());
    Request reduction = reduce(nccl.communicator, prepared, {}, gradient, {}, sums, reduce_label);
    const Tensor<float> buffer = nans(size);
    const Tensor<float> shard = make_tensor<float>("shard", mine.size());
    Kokkos::deep_copy(shard, static_cast<float>(step));
    gather(nccl.communicator, Purpose::unshard, unshard_of(world(), table), shard, buffer, unshard_label).wait();
    const Tensor<float> churn = nans(reduce_staging_bytes(prepared, world().rank()) / 4);
    reduction.wait();
    for (std::int64_t i = mine.begin; i < mine.end; i += 97)
      ASSERT_EQ(sums(static_cast<std::size_t>(i - mine.begin)), folded(i, world().size())) << "step " << step;
    for (std::int64_t i = 0; i < size; i += 89)
      ASSERT_EQ(buffer(static_cast<std::size_t>(i)), static_cast<float>(step));
  }
}

TEST(NcclBackend, a_single_rank_may_gather_in_place) {
  if (world().size() > 1) return;
  for (const GatherBy way : ways) {
    Attached nccl({way, nccl::most_group_operations});
    MATRIXFSDP_NEED_NCCL(nccl);
    const SegmentTable table = even_table(100, 1);
    const Tensor<float> shard = shard_of(table, 4);
    gather(nccl.communicator, Purpose::unshard, unshard_of(world(), table), shard, shard, unshard_label).wait();
    expect_values(shard, 4, "in place");
  }
}

// A rank that does not come: the others stop at the deadline, and say who, what and when; nothing after it hangs.
TEST(NcclBackend, a_frozen_peer_ends_within_the_deadline) {
  if (world().size() == 1) return;
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  nccl.communicator.set_deadline(std::chrono::milliseconds(300));
  const std::uint64_t sequence = nccl.communicator.implementation().channel->next_sequence;
  const SegmentTable table = testing::dealt_table(world().size(), 5, 40000);
  const Tensor<float> shard = shard_of(table, 1);
  const Tensor<float> buffer = nans(table.size);
  const auto start = [&] {
    return gather(nccl.communicator, Purpose::unshard, unshard_of(world(), table), shard, buffer, unshard_label);
  };
  if (world().rank() + 1 < world().size()) {
    const std::string first = message_of<CommunicationError>([&] { start().wait(); });
    EXPECT_TRUE(mentions(
        first, {fmt::format("rank {}: unshard of unit block.0 (forward), sequence {}: ", world().rank(), sequence)}));
    const std::string second = message_of<CommunicationError>([&] { start().wait(); });
    EXPECT_TRUE(
        mentions(second, {"unshard of unit block.0 (forward)", "the NCCL communicator of this rank was aborted"}));
  }
  world().barrier({"the others have given up", "", ""});
  // Whoever comes after that meets the abort, or the deadline.
  if (world().rank() + 1 == world().size()) {
    EXPECT_TRUE(
        mentions(message_of<CommunicationError>([&] { start().wait(); }), {"unshard of unit block.0 (forward)"}));
  }
  world().barrier({"end of test", "", ""});
}

// CASES 37: a request that is thrown away ends what the device does with the caller's tensors, and is told afterwards.
TEST(NcclBackend, an_abandoned_request_aborts) {
  if (world().size() == 1) return;
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  nccl.communicator.set_deadline(std::chrono::milliseconds(300));
  const SegmentTable table = even_table(3 * exchange_block * world().size(), world().size());
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, table);
  const Tensor<float> gradient = gradient_of(table.size, 0);
  const Tensor<float> sums = nans(table.shard_size(world().rank()));
  const auto start = [&] { return reduce(nccl.communicator, prepared, {}, gradient, {}, sums, reduce_label); };
  if (world().rank() + 1 == world().size()) world().barrier({"the others have let go", "", ""});
  try {
    const Request request = start();
    throw std::runtime_error("something else went wrong");
  } catch (const std::runtime_error&) {  // a CommunicationError too
  }
  if (world().rank() + 1 != world().size()) world().barrier({"the others have let go", "", ""});
  const std::string after = message_of<CommunicationError>([&] { start().wait(); });
  EXPECT_TRUE(mentions(after, {"reduce of unit block.0 (backward)", "was aborted"}));
  world().barrier({"end of test", "", ""});
}

// The end is collective and orderly; MPI takes over, and another attachment can be made.
TEST(NcclBackend, detach_gives_the_segments_back_to_mpi) {
  Communicator own = testing::duplicate_world();
  const SegmentTable table = testing::dealt_table(world().size(), 4, 100);
  for (int i = 0; i < 3; ++i) {
    nccl::Attachment attachment = nccl::attach(own);
    if (!attachment.active()) GTEST_SKIP() << attachment.description();
    EXPECT_TRUE(mentions(attachment.description(), {"segments by NCCL 2."}));
    EXPECT_THROW(nccl::attach(own), ContractError);
    Tensor<float> buffer = nans(table.size);
    gather(own, Purpose::unshard, unshard_of(own, table), shard_of(table, 1), buffer, unshard_label).wait();
    expect_values(buffer, 1, "attached");
    attachment.detach();
    EXPECT_FALSE(attachment.active());
    attachment.detach();
    buffer = nans(table.size);
    gather(own, Purpose::unshard, unshard_of(own, table), shard_of(table, 2), buffer, unshard_label).wait();
    expect_values(buffer, 2, "detached");
  }
}

TEST(NcclBackend, a_rank_that_does_not_end_is_a_missed_deadline) {
  if (world().size() == 1) return;
  Attached nccl;
  MATRIXFSDP_NEED_NCCL(nccl);
  nccl.communicator.set_deadline(std::chrono::milliseconds(300));
  if (world().rank() == 0) {
    EXPECT_TRUE(mentions(message_of<CommunicationError>([&] { nccl.attachment.detach(); }),
                         {"rank 0: end of the NCCL communicator: not complete after 0.3 s"}));
  }
  world().barrier({"rank 0 has given up", "", ""});
  if (world().rank() != 0) {
    EXPECT_THROW(nccl.attachment.detach(), CommunicationError);
  }
}

TEST(NcclBackend, a_group_of_one_operation_is_refused) {
  Communicator own = testing::duplicate_world();
  EXPECT_THROW(nccl::attach(own, {GatherBy::automatic, 1}), ContractError);
  EXPECT_THROW(nccl::attach(own, {GatherBy::automatic, nccl::most_group_operations + 1}), ContractError);
}

}  // namespace
}  // namespace matrixfsdp

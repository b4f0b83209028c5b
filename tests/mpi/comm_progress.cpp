#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/progress.hpp>
#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using namespace std::chrono_literals;
using testing::folded;
using testing::gradient_of;
using testing::world;

const OperationLabel label{"reduce", "block.0", "backward"};

/// A reduction of several blocks per pair of ranks.
struct Reduction {
  explicit Reduction(Communicator& communicator)
      : size(5 * exchange_block * communicator.size() + 3),
        chunk(even_table(size, communicator.size()).intervals[static_cast<std::size_t>(communicator.rank())][0]),
        gradient(gradient_of(size, communicator.rank())),
        sums(make_zeros<float>("sums", chunk.size())),
        request(testing::reduce_evenly(communicator, size, true, gradient, sums, label)) {}

  void expect_sums(int ranks) const {
    for (std::int64_t i = 0; i < chunk.size(); ++i)
      ASSERT_EQ(sums(static_cast<std::size_t>(i)), folded(chunk.begin + i, ranks)) << "element " << chunk.begin + i;
  }

  std::int64_t size;
  Interval chunk;
  Tensor<float> gradient;
  Tensor<float> sums;
  Request request;
};

/// Stands for a computation: makes no call of MPI. True when `request` is complete before the time is over.
bool completes_within(const Request& request, std::chrono::seconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!request.complete()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// CASES 46: messages move while every rank computes.
TEST(CommProgress, operations_end_while_nobody_tests) {
  ASSERT_TRUE(ProgressThread::available());
  Communicator own = testing::duplicate_world();
  const ProgressThread thread(own);
  for (int round = 0; round < 3; ++round) {
    Reduction first(own);
    Reduction second(own);
    EXPECT_TRUE(completes_within(second.request, 60s));
    EXPECT_TRUE(completes_within(first.request, 60s));
    EXPECT_TRUE(first.request.test());
    EXPECT_GT(first.request.seconds(), 0);
    first.expect_sums(own.size());
    second.request.wait();
    second.expect_sums(own.size());
  }
}

// The others come late to the first operation; the second is of two ranks only, and has all that it needs.
TEST(CommProgress, an_operation_that_cannot_go_on_does_not_hold_up_the_next) {
  if (world().size() < 3) return;
  Communicator own = testing::duplicate_world();
  const ProgressThread thread(own);
  const bool late = own.rank() >= 2;
  if (late) world().barrier({"the second operation is over", "", ""});
  Reduction first(own);
  const int members = late ? 1 : 2;
  const int member = late ? 0 : own.rank();
  const SegmentTable table = even_table(40 * exchange_block, members);
  Unshard unshard = prepare_unshard(CollectiveAlgorithm::direct, table, make_topology(members, 1), member);
  unshard.first_rank = late ? own.rank() : 0;
  const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(member));
  const Tensor<float> buffer = make_zeros<float>("buffer", table.size);
  Request second = gather(own, Purpose::unshard, unshard, shard, buffer, label);
  EXPECT_TRUE(completes_within(second, 20s));
  if (!late) {
    EXPECT_FALSE(first.request.complete());
    world().barrier({"the second operation is over", "", ""});
  }
  second.wait();
  first.request.wait();
  first.expect_sums(own.size());
}

TEST(CommProgress, without_a_thread_nothing_moves) {
  if (world().size() == 1) return;  // complete at once
  Reduction reduction(world());
  EXPECT_FALSE(completes_within(reduction.request, 1s)) << "the test above shows nothing";
  reduction.request.wait();
  reduction.expect_sums(world().size());
}

// Waiting, testing and throwing away beside the thread; threads come and go.
TEST(CommProgress, the_rank_may_wait_and_issue_at_the_same_time) {
  for (int round = 0; round < 20; ++round) {
    Communicator own = testing::duplicate_world();
    std::optional<ProgressThread> thread(own);
    const ProgressThread shared(own);
    std::vector<std::unique_ptr<Reduction>> reductions;
    for (int i = 0; i < 4; ++i) {
      reductions.push_back(std::make_unique<Reduction>(own));
      EXPECT_EQ(all_gather_value(own, Purpose::other, i, {"value", "", ""}).size(),
                static_cast<std::size_t>(own.size()));
    }
    if (round % 2 == 0) thread.reset();
    for (const auto& reduction : reductions) {
      reduction->request.wait();
      reduction->expect_sums(own.size());
    }
    EXPECT_EQ(own.bytes()[Purpose::reduce], 4 * 4 * (reductions[0]->size - reductions[0]->chunk.size()));
  }
}

// An error in the background is told by the wait, with everything that names the operation (CASES 38, 39).
TEST(CommProgress, an_error_waits_for_the_rank) {
  if (world().size() == 1) return;
  Communicator own = testing::duplicate_world();
  own.set_deadline(5s);
  const ProgressThread thread(own);
  const std::int64_t size = 10 * own.size() + (own.rank() == 0 ? own.size() : 0);
  const Tensor<float> gradient = gradient_of(size, own.rank());
  const Tensor<float> sums =
      make_zeros<float>("sums", even_table(size, own.size()).intervals[static_cast<std::size_t>(own.rank())][0].size());
  try {
    Request request = testing::reduce_evenly(own, size, true, gradient, sums, label);
    std::this_thread::sleep_for(50ms);
    request.wait();
    FAIL() << "ranks with different sizes agreed";
  } catch (const CommunicationError& error) {
    EXPECT_NE(std::string(error.what()).find("reduce of unit block.0 (backward)"), std::string::npos) << error.what();
  }
  world().barrier({"end of test", "", ""});
}

}  // namespace
}  // namespace matrixfsdp

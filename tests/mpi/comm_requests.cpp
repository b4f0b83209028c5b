#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/channel.hpp"
#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::value_at;
using testing::world;

const OperationLabel label{"reduce", "block.3", "backward"};

/// All that one reduction needs; it stays alive when its request is thrown away.
struct Reduction {
  explicit Reduction(std::int64_t elements)
      : size(elements),
        chunk(even_table(size, world().size()).intervals[static_cast<std::size_t>(world().rank())][0]),
        gradient(make_tensor<float>("gradient", size)),
        sums(make_zeros<float>("sums", chunk.size())) {
    for (std::int64_t i = 0; i < size; ++i) {
      gradient(static_cast<std::size_t>(i)) = value_at(static_cast<std::uint64_t>(world().rank()), i);
    }
  }

  Request start(Communicator& communicator) {
    return testing::reduce_evenly(communicator, size, true, gradient, sums, label);
  }

  void expect_sums() const {
    for (std::int64_t i = 0; i < chunk.size(); ++i) {
      float sum = value_at(0, chunk.begin + i);
      for (int rank = 1; rank < world().size(); ++rank)
        sum += value_at(static_cast<std::uint64_t>(rank), chunk.begin + i);
      ASSERT_EQ(sums(static_cast<std::size_t>(i)), sum) << "element " << chunk.begin + i;
    }
  }

  std::int64_t size;
  Interval chunk;
  Tensor<float> gradient;
  Tensor<float> sums;
};

TEST(CommRequests, a_default_request_is_complete) {
  Request request;
  EXPECT_TRUE(request.test());
  request.wait();
}

TEST(CommRequests, moving_keeps_an_operation_running) {
  Reduction reduction(5 * exchange_block * world().size());
  Request first = reduction.start(world());
  Request second(std::move(first));
  EXPECT_TRUE(first.test());
  Request third;
  third = std::move(second);
  EXPECT_TRUE(second.test());
  third.wait();
  EXPECT_TRUE(third.test());
  reduction.expect_sums();
}

// CASES 37: memory that MPI may still write to is not given back when a request is thrown away, also by an exception.
TEST(CommRequests, staging_of_an_abandoned_request_outlives_it) {
  if (world().size() == 1) return;
  Communicator own = testing::duplicate_world();
  auto& graveyard = own.implementation().channel->graveyard;
  Reduction abandoned(6 * exchange_block * world().size());
  {
    // The last rank comes late, so that nobody else can be complete.
    if (own.rank() == own.size() - 1) world().barrier({"the others have let go", "", ""});
    try {
      const Request request = abandoned.start(own);
      throw std::runtime_error("something else went wrong");
    } catch (const std::runtime_error&) {
    }
    if (own.rank() != own.size() - 1) {
      EXPECT_EQ(graveyard.size(), 1U);
      world().barrier({"the others have let go", "", ""});
    }
  }
  // Others go on, with memory that is given away and taken again all the time.
  for (int i = 0; i < 20; ++i) {
    Reduction reduction(2 * exchange_block * world().size() + i);
    reduction.start(own).wait();
    reduction.expect_sums();
  }
}

// CASES 37: 500 steps of operations whose tensors and requests come and go.
TEST(CommRequests, five_hundred_steps_with_churning_memory) {
  const std::int64_t size = 64 * world().size() + 5;
  const SegmentTable table = even_table(size, world().size());
  for (int step = 0; step < 500; ++step) {
    Reduction reduction(size + step % 3);
    Request reduce = reduction.start(world());
    const Tensor<float> shard = make_tensor<float>("shard", table.shard_size(world().rank()));
    Kokkos::deep_copy(shard, static_cast<float>(step));
    const Tensor<float> buffer = make_zeros<float>("buffer", size);
    gather(world(), Purpose::unshard, testing::unshard_of(world(), table), shard, buffer, {"unshard", "", ""}).wait();
    std::vector<std::byte> churn(static_cast<std::size_t>(1 + step % 17) * 1000);
    reduce.wait();
    reduction.expect_sums();
    for (std::int64_t i = 0; i < size; ++i) {
      ASSERT_EQ(buffer(static_cast<std::size_t>(i)), static_cast<float>(step));
    }
  }
  EXPECT_TRUE(world().implementation().channel->graveyard.empty());
}

// Abandoned requests that MPI has finished with are freed, so that a long run does not grow.
TEST(CommRequests, finished_graves_are_emptied) {
  Communicator own = testing::duplicate_world();
  const auto& channel = own.implementation().channel;
  std::vector<Reduction> kept;
  for (int i = 0; i < 10; ++i)
    kept.emplace_back(1000);
  for (Reduction& reduction : kept) {
    const Request request = reduction.start(own);
  }
  const auto end = std::chrono::steady_clock::now() + own.deadline();
  do {
    own.barrier({"sweep", "", ""});
    ASSERT_LT(std::chrono::steady_clock::now(), end);
  } while (all_gather_value(own, Purpose::other, channel->graveyard.size(), {"graves", "", ""}) !=
           std::vector<std::size_t>(static_cast<std::size_t>(own.size()), 0));
  EXPECT_EQ(channel->open_operations, 0U);
}

// A rank that never comes: the others stop at the deadline, and say who, what, when, and whom they wait for.
TEST(CommRequests, a_missed_deadline_names_everything) {
  if (world().size() == 1) return;
  Communicator own = testing::duplicate_world();
  own.set_deadline(std::chrono::milliseconds(200));
  EXPECT_EQ(own.deadline(), std::chrono::milliseconds(200));
  Reduction reduction(10000);
  const int absent = own.size() - 1;
  if (own.rank() != absent) {
    try {
      reduction.start(own).wait();
      ADD_FAILURE() << "expected a CommunicationError";
    } catch (const CommunicationError& error) {
      const std::string message = error.what();
      const std::string begin = "rank " + std::to_string(own.rank()) +
                                ": reduce of unit block.3 (backward), sequence 0: not complete after 0.2 s";
      EXPECT_EQ(message.substr(0, begin.size()), begin) << message;
      EXPECT_NE(message.find("nothing more came from rank"), std::string::npos) << message;
      EXPECT_NE(message.find(std::to_string(absent)), std::string::npos) << message;
    }
    EXPECT_THROW(own.barrier({"barrier", "", ""}), CommunicationError);
    EXPECT_THROW(own.all_gather(Purpose::other, {}, {"norm exchange", "", "step"}), CommunicationError);
  }
  world().barrier({"end of test", "", ""});
}

TEST(CommRequests, labels_read_well_without_their_parts) {
  EXPECT_EQ(to_string({"unshard", "block.3", "forward"}), "unshard of unit block.3 (forward)");
  EXPECT_EQ(to_string({"norm exchange", "", "step"}), "norm exchange (step)");
  EXPECT_EQ(to_string({"", "", ""}), "operation");
}

}  // namespace
}  // namespace matrixfsdp

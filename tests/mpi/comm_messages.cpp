#include <algorithm>
#include <chrono>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/channel.hpp"
#include "support/comm_tables.hpp"
#include "support/messages.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::world;

const OperationLabel label{"exchange", "", "test"};

std::vector<std::byte> data_of(int rank, std::int64_t size) {
  std::vector<std::byte> data(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(31 * rank + static_cast<int>(i % 251));
  return data;
}

/// Sizes around the part that travels with the head (1016 bytes) and around pieces.
const std::vector<std::int64_t> sizes{0, 1, 8, 1015, 1016, 1017, 5000, 300001};

TEST(CommMessages, all_gather_of_any_sizes) {
  for (const std::int64_t base : sizes) {
    const auto size_of = [&](int rank) { return rank % 3 == 1 ? 0 : base + rank; };
    const ByteCounts before = world().bytes();
    const auto parts = world().all_gather(Purpose::clip, data_of(world().rank(), size_of(world().rank())), label);
    ASSERT_EQ(parts.size(), static_cast<std::size_t>(world().size()));
    for (int rank = 0; rank < world().size(); ++rank) {
      EXPECT_EQ(parts[static_cast<std::size_t>(rank)], data_of(rank, size_of(rank))) << "base " << base;
    }
    EXPECT_EQ(world().bytes()[Purpose::clip] - before[Purpose::clip],
              (8 + size_of(world().rank())) * (world().size() - 1));
    EXPECT_EQ(world().bytes()[Purpose::other], before[Purpose::other]);
  }
}

TEST(CommMessages, broadcast_from_every_root) {
  for (int root = 0; root < world().size(); ++root) {
    for (const std::int64_t size : sizes) {
      const std::int64_t before = world().bytes()[Purpose::optimizer];
      const auto mine = world().rank() == root ? data_of(root, size) : data_of(root + 1, 3);
      const auto data = world().broadcast(Purpose::optimizer, mine, root, label);
      EXPECT_EQ(data, data_of(root, size)) << "root " << root;
      // Over all ranks the tree has W - 1 edges.
      const auto sent = all_gather_value(world(), Purpose::other, world().bytes()[Purpose::optimizer] - before, label);
      EXPECT_EQ(std::accumulate(sent.begin(), sent.end(), std::int64_t{0}), (8 + size) * (world().size() - 1));
    }
  }
  EXPECT_THROW(world().broadcast(Purpose::other, {}, world().size(), label), ContractError);
  EXPECT_THROW(world().broadcast(Purpose::other, {}, -1, label), ContractError);
}

// CASES 43: messages beyond MPI's int counts go in pieces; here the limit is small.
TEST(CommMessages, pieces_join_again) {
  Communicator own = testing::duplicate_world();
  for (const std::int64_t piece : {1, 7, 1000, 4096}) {
    own.implementation().channel->piece_bytes = piece;
    for (const std::int64_t size : {0, 1016, 1017, 1016 + 4096, 5003}) {
      const std::int64_t before = own.bytes().total();
      const auto parts = own.all_gather(Purpose::other, data_of(own.rank(), size + own.rank()), label);
      for (int rank = 0; rank < own.size(); ++rank) {
        EXPECT_EQ(parts[static_cast<std::size_t>(rank)], data_of(rank, size + rank)) << "piece " << piece;
      }
      EXPECT_EQ(own.bytes().total() - before, (8 + size + own.rank()) * (own.size() - 1));
      EXPECT_EQ(own.broadcast(Purpose::other, data_of(9, own.rank() == 0 ? size : 0), 0, label), data_of(9, size));
    }
  }
}

TEST(CommMessages, the_longest_message_fits_into_an_mpi_count) {
  EXPECT_LE(world().implementation().channel->piece_bytes, std::int64_t{2147483647});
  EXPECT_GE(world().implementation().channel->piece_bytes, std::int64_t{1} << 20);
}

TEST(CommMessages, barrier_waits_for_the_last_rank_and_sends_no_payload) {
  // Each rank in turn comes late: nobody may leave before it has come.
  using Clock = std::chrono::steady_clock;
  for (int late = 0; late < world().size(); ++late) {
    world().barrier(label);
    const std::int64_t before = world().bytes().total();
    if (world().rank() == late) {
      const auto until = Clock::now() + std::chrono::milliseconds(20);
      while (Clock::now() < until)
        std::this_thread::yield();
    }
    const std::int64_t came = Clock::now().time_since_epoch().count();
    world().barrier(label);
    const std::int64_t left = Clock::now().time_since_epoch().count();
    EXPECT_EQ(world().bytes().total(), before);
    for (const std::int64_t other : all_gather_value(world(), Purpose::other, came, label))
      EXPECT_LE(other, left);
  }
}

// The number of the operation becomes the tag: after the last tag the numbering starts again.
TEST(CommMessages, tags_wrap_around) {
  Communicator own = testing::duplicate_world();
  mpi::Channel& channel = *own.implementation().channel;
  EXPECT_GE(channel.largest_tag, 32767);
  channel.largest_tag = 4;
  for (int i = 0; i < 40; ++i) {
    const auto ranks = all_gather_value(own, Purpose::other, 100 * i + own.rank(), label);
    for (int rank = 0; rank < own.size(); ++rank)
      EXPECT_EQ(ranks[static_cast<std::size_t>(rank)], 100 * i + rank);
  }
}

TEST(CommMessages, agreement_throws_the_first_message_on_every_rank) {
  agree_on_input(world(), "");
  const int last = world().size() - 1;
  for (const int first : {0, last / 2, last}) {
    const std::string mine = world().rank() >= first ? "no file " + std::to_string(world().rank()) : "";
    try {
      agree_on_input(world(), mine);
      ADD_FAILURE() << "expected an InputError";
    } catch (const InputError& error) {
      EXPECT_EQ(error.what(), "no file " + std::to_string(first));
    }
  }
  agree_on_input(world(), "");
}

// CASES 38, 39: a hash that differs is an error that names both values on every rank.
TEST(CommMessages, require_equal_names_both_values) {
  require_equal(world(), 7, "the hash of the plan");
  if (world().size() == 1) return;
  const int odd_one = world().size() - 1;
  try {
    require_equal(world(), world().rank() == odd_one ? 8 : 7, "the hash of the plan");
    ADD_FAILURE() << "expected a CommunicationError";
  } catch (const CommunicationError& error) {
    EXPECT_EQ(error.what(), "the hash of the plan differs between ranks: 7 on rank 0, 8 on rank " +
                                std::to_string(odd_one) + ": expected the same");
  }
}

// A rank at another operation, or with another type: its bytes are not read as a value.
TEST(CommMessages, a_value_of_another_size_is_an_error_on_every_rank) {
  if (world().size() == 1) return;
  const int odd_one = world().size() - 1;
  const bool odd = world().rank() == odd_one;
  const std::string message = test::message_of<CommunicationError>([&] {
    if (odd) {
      all_gather_value(world(), Purpose::other, std::int64_t{7}, label);
    } else {
      all_gather_value(world(), Purpose::other, std::int32_t{7}, label);
    }
  });
  const std::string expected =
      odd ? "4 bytes from rank 0, expected 8" : "8 bytes from rank " + std::to_string(odd_one) + ", expected 4";
  EXPECT_TRUE(test::mentions(message, {"exchange (test)", expected}));
}

TEST(CommMessages, purposes_have_the_names_of_the_metrics_line) {
  EXPECT_EQ(name_of(Purpose::unshard), "unshard");
  EXPECT_EQ(name_of(Purpose::reduce), "reduce");
  EXPECT_EQ(name_of(Purpose::clip), "clip");
  EXPECT_EQ(name_of(Purpose::optimizer), "optimizer");
  EXPECT_EQ(name_of(Purpose::other), "other");
  ByteCounts counts;
  counts[Purpose::unshard] = 1;
  counts[Purpose::other] = 20;
  EXPECT_EQ(counts.total(), 21);
}

}  // namespace
}  // namespace matrixfsdp

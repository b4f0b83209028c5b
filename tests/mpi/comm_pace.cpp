#include <algorithm>
#include <array>
#include <utility>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/core/error.hpp>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"
#include "support/pmpi_bytes.hpp"

// How many messages are under way at the same time: what a rank has sent while nobody receives.
namespace matrixfsdp {
namespace {

using testing::folded;
using testing::gradient_of;
using testing::nans;
using testing::value_at;
using testing::world;

const OperationLabel label{"paced", "block.0", "forward"};
constexpr std::int64_t blocks = 9;

/// Rank 0 owns all of nine blocks, each too long to leave before it is asked for.
SegmentTable table() {
  SegmentTable all = even_table(0, world().size());
  all.size = blocks * exchange_block;
  for (std::size_t rank = 0; rank < all.intervals.size(); ++rank)
    all.intervals[rank][0] = {rank == 0 ? 0 : all.size, all.size};
  return all;
}

/// One message of a block is announced, answered and carried while `ahead` others are.
CollectiveProfile links(double ahead) {
  CollectiveProfile profile;
  LinkModel link;
  link.beta_seconds_per_byte = 4e-8;
  link.alpha_seconds = ahead / 3 * 4 * exchange_block * link.beta_seconds_per_byte;
  profile.between = link;
  return profile;
}

Communicator paced(int ranks_per_node, double ahead) {
  Communicator communicator = testing::duplicate_world();
  mpi::set_pace(communicator, make_topology(world().size(), ranks_per_node), links(ahead));
  return communicator;
}

/// Messages that rank `sender` has sent from `watched` when the others have not begun yet.
template <class Start>
long long sent_alone(int sender, const Tensor<float>& watched, const Start& start) {
  Request request;
  long long sent = 0;
  if (world().rank() == sender) {
    matrixfsdp_pmpi_watch(watched.data(), 4 * static_cast<long long>(watched.size()));
    request = start();
    for (int i = 0; i < 20; ++i)
      EXPECT_FALSE(request.test());
    sent = matrixfsdp_pmpi_watched_calls();
  }
  world().barrier(label);
  if (world().rank() != sender) request = start();
  request.wait();
  return all_gather_value(world(), Purpose::other, sent, label)[static_cast<std::size_t>(sender)];
}

long long sent_by_gather(Communicator& communicator) {
  const Unshard unshard =
      prepare_unshard(CollectiveAlgorithm::direct, table(), make_topology(world().size(), 1), world().rank());
  const Tensor<float> buffer = nans(table().size);
  const Tensor<float> shard = nans(table().shard_size(world().rank()));
  for (std::size_t i = 0; i < shard.size(); ++i)
    shard(i) = value_at(1, static_cast<std::int64_t>(i));
  const long long sent =
      sent_alone(0, shard, [&] { return gather(communicator, Purpose::unshard, unshard, shard, buffer, label); });
  for (std::size_t i = 0; i < buffer.size(); ++i)
    EXPECT_EQ(buffer(i), value_at(1, static_cast<std::int64_t>(i))) << "element " << i;
  return sent;
}

long long sent_by_reduce(Communicator& communicator) {
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, table(), make_topology(world().size(), 1));
  const Tensor<float> gradient = gradient_of(table().size, world().rank());
  const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
  const Tensor<float> shard = nans(table().shard_size(world().rank()));
  const long long sent =
      sent_alone(1, gradient, [&] { return reduce(communicator, prepared, {}, gradient, sums, shard, label); });
  for (std::size_t i = 0; i < shard.size(); ++i)
    EXPECT_EQ(shard(i), folded(static_cast<std::int64_t>(i), world().size())) << "element " << i;
  return sent;
}

TEST(CommPace, as_many_messages_are_under_way_as_the_link_between_nodes_needs) {
  const int others = world().size() - 1;
  if (others == 0) return;
  Communicator unpaced = testing::duplicate_world();
  EXPECT_EQ(sent_by_gather(unpaced), exchange_window * others);
  EXPECT_EQ(sent_by_reduce(unpaced), reduce_window) << "its staging has no more room";
  for (const auto& [ahead, under_way] : std::array<std::pair<double, int>, 4>{{{0, 1}, {0.04, 1}, {1, 2}, {50, 8}}}) {
    Communicator communicator = paced(1, ahead);
    EXPECT_EQ(sent_by_gather(communicator), under_way * others) << ahead;
    EXPECT_EQ(sent_by_reduce(communicator), std::min(under_way, reduce_window)) << ahead;
    Communicator copy = mpi::duplicate(communicator);
    EXPECT_EQ(sent_by_gather(copy), under_way * others) << ahead << ", a duplicate";
  }
}

TEST(CommPace, ranks_of_one_node_keep_the_whole_window) {
  const int others = world().size() - 1;
  if (others == 0) return;
  Communicator communicator = paced(2, 0);
  EXPECT_EQ(mpi::pace_of(communicator)[static_cast<std::size_t>(world().rank())], exchange_window);
  EXPECT_EQ(sent_by_gather(communicator), exchange_window + (others - 1));
}

TEST(CommPace, a_topology_of_other_ranks_is_refused) {
  EXPECT_THROW(mpi::set_pace(world(), make_topology(world().size() + 1, 1), {}), ContractError);
}

}  // namespace
}  // namespace matrixfsdp

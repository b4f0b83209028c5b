#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/segments.hpp>

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

const OperationLabel label{"window", "block.0", "forward"};
constexpr std::int64_t blocks = 20;

/// Rank 0 owns all blocks.
SegmentTable table(std::int64_t block_elements) {
  SegmentTable all = even_table(0, world().size());
  all.size = blocks * block_elements;
  for (std::size_t rank = 0; rank < all.intervals.size(); ++rank)
    all.intervals[rank][0] = {rank == 0 ? 0 : all.size, all.size};
  return all;
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

long long sent_by_gather(std::int64_t block_elements) {
  const SegmentTable all = table(block_elements);
  const Unshard unshard = prepare_unshard(CollectiveAlgorithm::direct, all, make_topology(world().size(), 1),
                                          world().rank(), block_elements);
  const Tensor<float> buffer = nans(all.size);
  const Tensor<float> shard = nans(all.shard_size(world().rank()));
  for (std::size_t i = 0; i < shard.size(); ++i)
    shard(i) = value_at(1, static_cast<std::int64_t>(i));
  Communicator apart = testing::duplicate_world();  // that of the barrier is used in another order
  const long long sent =
      sent_alone(0, shard, [&] { return gather(apart, Purpose::unshard, unshard, shard, buffer, label); });
  for (std::size_t i = 0; i < buffer.size(); ++i)
    EXPECT_EQ(buffer(i), value_at(1, static_cast<std::int64_t>(i))) << "element " << i;
  return sent;
}

long long sent_by_reduce(int ranks_per_node) {
  const Topology topology = make_topology(world().size(), ranks_per_node);
  const SegmentTable all = table(message_elements(topology));
  const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, all, topology);
  const Tensor<float> gradient = gradient_of(all.size, world().rank());
  const Tensor<float> sums = nans(running_sum_elements(prepared, world().rank()));
  const Tensor<float> shard = nans(all.shard_size(world().rank()));
  Communicator apart = testing::duplicate_world();
  const long long sent =
      sent_alone(1, gradient, [&] { return reduce(apart, prepared, {}, gradient, sums, shard, label); });
  for (std::size_t i = 0; i < shard.size(); ++i)
    EXPECT_EQ(shard(i), folded(static_cast<std::int64_t>(i), world().size())) << "element " << i;
  return sent;
}

// However short they are: MPI sends short ones whether there is a receive for them or not, and keeps what there is none
// for in memory that nobody has counted.
TEST(CommWindow, no_more_messages_are_under_way_than_the_window_has) {
  const int others = world().size() - 1;
  if (others == 0) return;
  for (const std::int64_t block_elements : {std::int64_t{1}, std::int64_t{100}, link_block, exchange_block})
    EXPECT_EQ(sent_by_gather(block_elements), exchange_window * others) << "blocks of " << block_elements;
}

TEST(CommWindow, no_more_gradients_are_under_way_than_have_room) {
  if (world().size() == 1) return;
  EXPECT_EQ(sent_by_reduce(world().size()), reduce_room / exchange_block);
  EXPECT_EQ(sent_by_reduce(1), exchange_window) << "there is room for more";
}

}  // namespace
}  // namespace matrixfsdp

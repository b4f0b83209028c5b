#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective.hpp>

#include "plan/collectives/broadcast_tree.hpp"
#include "plan/collectives/shares.hpp"
#include "plan/wire.hpp"

namespace matrixfsdp {
namespace {

using detail::BroadcastTree;
using detail::Route;

/// A message's content, and when its owner sends it first.
struct Block {
  Interval elements;
  std::int64_t padding = 0;
  Route route;
  std::int64_t start = 0;  ///< in hops: every rank can pass one block per hop
};

/// Blocks of one owner and relay in order; their starts are spread over the time that all blocks together take on a
/// link, so that blocks of all owners arrive everywhere at one even rate.
struct Stream {
  Route route;
  std::vector<Block> blocks;

  void add(Interval elements, std::int64_t block_elements) {
    for (std::int64_t begin = elements.begin; begin < elements.end; begin += block_elements)
      blocks.push_back({{begin, std::min(begin + block_elements, elements.end)}, 0, route, 0});
  }
};

/// Pieces of one owner and helper stand together.
std::vector<Stream> streams_of(const std::vector<Piece>& pieces, std::int64_t block_elements) {
  std::vector<Stream> streams;
  for (const Piece& piece : pieces) {
    if (streams.empty() || streams.back().route.owner != piece.owner || streams.back().route.relay != piece.holder)
      streams.push_back({{piece.owner, piece.holder}, {}});
    streams.back().add(piece.elements, block_elements);
  }
  return streams;
}

/// Every rank has as many blocks as the one with the longest shard.
std::vector<Stream> padded_streams(const SegmentTable& table, std::int64_t block_elements) {
  std::int64_t longest = 0;
  for (std::size_t rank = 0; rank < table.intervals.size(); ++rank)
    longest = std::max(longest, table.shard_size(static_cast<int>(rank)));
  std::vector<Stream> streams(table.intervals.size());
  for (std::size_t rank = 0; rank < streams.size(); ++rank) {
    streams[rank].route = {static_cast<int>(rank), static_cast<int>(rank)};
    for (const Interval& interval : table.intervals[rank])
      streams[rank].add(interval, block_elements);
    std::int64_t missing = longest - table.shard_size(static_cast<int>(rank));
    for (; missing > 0; missing -= block_elements)
      streams[rank].blocks.push_back({{}, std::min(missing, block_elements), streams[rank].route, 0});
  }
  return streams;
}

std::vector<Block> all_blocks(std::vector<Stream> streams) {
  std::int64_t count = 0;
  for (const Stream& stream : streams)
    count += static_cast<std::int64_t>(stream.blocks.size());
  std::vector<Block> blocks;
  blocks.reserve(static_cast<std::size_t>(count));
  for (Stream& stream : streams) {
    const auto length = static_cast<std::int64_t>(stream.blocks.size());
    for (std::int64_t i = 0; i < length; ++i) {
      Block& block = stream.blocks[static_cast<std::size_t>(i)];
      block.start = (2 * i + 1) * count / (2 * length);
      blocks.push_back(block);
    }
  }
  return blocks;
}

/// A block on its way to `receiver`: both sides order the messages between them by `when`, then by the block's number.
struct Hop {
  int peer = 0;
  std::int64_t when = 0;
  std::size_t block = 0;
};

/// By peer, beginning with the one after `rank` (sends) or before it (receives), so that no rank is everybody's first.
void order(std::vector<Hop>& hops, int rank, int world_size, bool sends) {
  const auto turn = [&](int peer) {
    return sends ? (peer - rank + world_size) % world_size : (rank - peer + world_size) % world_size;
  };
  std::sort(hops.begin(), hops.end(), [&turn](const Hop& a, const Hop& b) {
    if (a.peer != b.peer) return turn(a.peer) < turn(b.peer);
    return a.when != b.when ? a.when < b.when : a.block < b.block;
  });
}

void append(std::vector<PeerTransfers>& transfers, int peer, const Block& block, std::int64_t after) {
  if (transfers.empty() || transfers.back().peer != peer) transfers.push_back({peer, {}});
  transfers.back().blocks.push_back({block.elements, block.padding, after});
}

/// What a rank passes on may come this many hops later than it could, before the rank has nothing to send: otherwise
/// all would wait whenever one is late, because messages between two ranks have a fixed order.
constexpr std::int64_t slack = 8;

TransferSchedule schedule_of(const std::vector<Block>& blocks, const BroadcastTree& tree, int rank, int world_size) {
  std::vector<Hop> sends;
  std::vector<Hop> receives;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = blocks[i];
    if (rank != block.route.owner)
      receives.push_back({tree.parent(block.route, rank), block.start + slack * tree.depth(block.route, rank), i});
    for (const int child : tree.children(block.route, rank))
      sends.push_back({child, block.start + slack * tree.depth(block.route, child), i});
  }
  order(sends, rank, world_size, true);
  order(receives, rank, world_size, false);
  TransferSchedule schedule;
  std::vector<std::int64_t> receive_of(blocks.size(), -1);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    receive_of[receives[i].block] = static_cast<std::int64_t>(i);
    append(schedule.receives, receives[i].peer, blocks[receives[i].block], -1);
  }
  for (const Hop& hop : sends)
    append(schedule.sends, hop.peer, blocks[hop.block], receive_of[hop.block]);
  return schedule;
}

}  // namespace

TransferSchedule unshard_schedule(CollectiveAlgorithm algorithm, const SegmentTable& table, const Topology& topology,
                                  int rank, std::optional<std::int64_t> asked) {
  validate(table, topology.world_size());
  const std::int64_t block_elements = asked.value_or(message_elements(topology));
  if (rank < 0 || rank >= topology.world_size()) {
    throw ContractError(fmt::format("schedule of rank {}: expected one of {} ranks", rank, topology.world_size()));
  }
  if (block_elements < 1)
    throw ContractError(fmt::format("blocks of {} elements: expected at least 1", block_elements));
  const auto tree = detail::make_broadcast_tree(algorithm, topology);
  std::vector<Stream> streams;
  if (algorithm == CollectiveAlgorithm::padded)
    streams = padded_streams(table, block_elements);
  else if (algorithm == CollectiveAlgorithm::scatter)
    streams = streams_of(detail::deal(table, detail::relay_shares(table)), block_elements);
  else
    streams = streams_of(detail::deal(table, detail::shard_sizes(table)), block_elements);
  return schedule_of(all_blocks(std::move(streams)), *tree, rank, topology.world_size());
}

Unshard prepare_unshard(CollectiveAlgorithm algorithm, SegmentTable table, const Topology& topology, int rank,
                        std::optional<std::int64_t> block_elements, DType wire) {
  detail::require_wire(wire, "unshard as");
  Unshard unshard;
  unshard.algorithm = algorithm;
  unshard.wire = wire;
  if (algorithm == CollectiveAlgorithm::allgatherv)
    validate(table, topology.world_size());
  else
    unshard.schedule = unshard_schedule(algorithm, table, topology, rank, block_elements);
  unshard.table = std::move(table);
  return unshard;
}

bool same_messages(const Unshard& a, const Unshard& b) {
  const auto is_ours = [](const Unshard& unshard) { return unshard.algorithm != CollectiveAlgorithm::allgatherv; };
  return is_ours(a) && is_ours(b) && a.wire == b.wire && a.first_rank == b.first_rank && a.schedule == b.schedule;
}

}  // namespace matrixfsdp

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/segment_table.hpp>
#include <matrixfsdp/plan/topology.hpp>

/// @file
/// How a unit is unsharded, and its gradients reduced: who sends which elements to whom, in which order. A schedule is
/// made from the table and the topology alone, so both sides of a transfer agree on it without a word; backends of comm
/// carry it out. Unshard moves copies, and reduce sums in one order, so the bits that arrive are the same by all
/// algorithms.
namespace matrixfsdp {

/// Ways of unsharding a unit and of reducing its gradients. O_max: the most of a unit on one rank; P: the unit.
enum class CollectiveAlgorithm {
  direct,        ///< every rank sends its segments to every other: one hop, O_max (W - 1) from the fullest rank
  chain,         ///< blocks pass from rank to rank, ordered by node: about P through each rank, whoever owns them
  scatter,       ///< two hops: owners spread blocks over helpers, helpers send them to all; rank loads are even
  tree,          ///< a binomial tree from each owner: log2 W hops, for small units
  hierarchical,  ///< a chain of nodes, each byte once over each link; inside a node from the rank where it arrived
  padded,        ///< the chain, with every rank's segments padded to the longest: the published ablation; only unshard
  allgatherv,    ///< the MPI library's own; only unshard
};

/// "direct", "chain", ... Throws InputError for any other name.
CollectiveAlgorithm parse_collective(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(CollectiveAlgorithm algorithm);

/// Elements of a message among ranks that share memory, and the most of any: 64 KiB of float32.
inline constexpr std::int64_t exchange_block = 16 * 1024;
/// Elements of a message where there are links between ranks: 16 KiB of float32. MPI sends these at once (eager), where
/// it announces larger ones first and waits for an answer (rendezvous), behind whatever stands in the queues of both
/// ends; and what is relayed goes on sooner. Measured over TCP (apps/bench/MEASURED.md).
inline constexpr std::int64_t link_block = 4 * 1024;
/// The one of these two for the ranks of `topology`.
std::int64_t message_elements(const Topology& topology);

/// The most messages that are under way from one rank to another at the same time: sent, and not taken yet by a receive
/// there. So many keep a link busy while the first of them is acknowledged, and leave work for a rank that gets a core
/// only now and then.
inline constexpr int exchange_window = 8;

/// Elements of one peer that a rank has room for while it reduces: those of four messages in one node, of 16 between
/// nodes.
inline constexpr std::int64_t reduce_room = 4 * exchange_block;

/// A message between two ranks.
struct BlockTransfer {
  Interval elements;         ///< of the buffer
  std::int64_t padding = 0;  ///< elements that nobody reads, instead
  std::int64_t after = -1;  ///< a send: the receive (its number in the schedule) that must be complete; -1: own segment

  /// Elements that travel.
  [[nodiscard]] std::int64_t size() const { return elements.size() + padding; }
  /// The same message.
  bool operator==(const BlockTransfer&) const = default;
};

/// Messages to, or from, one peer, in order.
struct PeerTransfers {
  int peer = 0;                       ///< rank of the table
  std::vector<BlockTransfer> blocks;  ///< the first one first
  /// The same messages in the same order.
  bool operator==(const PeerTransfers&) const = default;
};

/// One rank's part of an unshard. Receives are numbered through all peers, in the order in which they stand here.
struct TransferSchedule {
  std::vector<PeerTransfers> sends;     ///< at most one entry for each peer
  std::vector<PeerTransfers> receives;  ///< as sends
  /// The same peers and messages in the same order.
  bool operator==(const TransferSchedule&) const = default;
};

/// What one rank sends and receives by a schedule.
struct TransferCounts {
  std::int64_t sent = 0;                    ///< elements
  std::int64_t received = 0;                ///< elements
  std::int64_t sent_between_nodes = 0;      ///< elements, of `sent`
  std::int64_t received_between_nodes = 0;  ///< elements, of `received`
  std::int64_t messages = 0;                ///< sent
  std::int64_t messages_between_nodes = 0;  ///< of `messages`
};
/// Counts of one rank's schedule; `rank` and the peers are ranks of the topology.
TransferCounts counts_of(const TransferSchedule& schedule, const Topology& topology, int rank);

/// Rank `rank`'s part of the unshard of `table`. Blocks have at most `block_elements` elements (none:
/// message_elements) and do not cross segments. Throws ContractError for an invalid table, a topology of another size,
/// block_elements < 1, and for allgatherv, which has no schedule of ours.
TransferSchedule unshard_schedule(CollectiveAlgorithm algorithm, const SegmentTable& table, const Topology& topology,
                                  int rank, std::optional<std::int64_t> block_elements = {});

/// An unshard made ready, once for each unit.
struct Unshard {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::direct;  ///< what the schedule was made by
  SegmentTable table;                                           ///< which rank has which elements of the buffer
  TransferSchedule schedule;                                    ///< of one rank; empty for allgatherv
  int first_rank = 0;           ///< of the communicator: the one that is rank 0 of table and schedule
  DType wire = DType::float32;  ///< what travels: float32, or bfloat16, which is then what arrives everywhere
};
/// Throws as unshard_schedule, and ContractError for another `wire` than float32 and bfloat16.
Unshard prepare_unshard(CollectiveAlgorithm algorithm, SegmentTable table, const Topology& topology, int rank,
                        std::optional<std::int64_t> block_elements = {}, DType wire = DType::float32);

/// Whether both send the same messages in the same order, of the rank that they are made for; not asked of the
/// library's allgatherv. direct and scatter do for an even table.
bool same_messages(const Unshard& a, const Unshard& b);

/// Elements of one owner that one rank, the holder, relays or sums: the owner itself, or a helper.
struct Piece {
  Interval elements;  ///< of the buffer
  int owner = 0;      ///< rank of the table whose shard they belong to
  int holder = 0;     ///< of a reduce: its place in each run
  /// The same elements, owner and holder.
  bool operator==(const Piece&) const = default;
};

/// What a reduce is made for, besides the table and where ranks are.
struct ReduceSettings {
  std::int64_t passes = 1;      ///< of a step
  DType wire = DType::float32;  ///< of the gradients that travel, float32 or bfloat16; sums are float32
  /// Micro-batches with neighbouring indices whose gradients are summed first, from left to right; the sums of these
  /// groups are then summed from left to right too. Divides the micro-batches of a step. 1: one sum from left to right.
  std::int64_t sum_group = 1;
};

/// What a sum consists of after `summed` micro-batches, in groups of `sum_group`.
struct FoldState {
  bool sum = false;   ///< of the groups that are complete
  bool open = false;  ///< of the group that is not

  /// Numbers that stand for an element between passes: 0, 1 or 2.
  [[nodiscard]] int parts() const { return int{sum} + int{open}; }
};
/// State after `summed` >= 0 micro-batches in groups of `sum_group` >= 1. Unchecked.
inline FoldState fold_state(std::int64_t summed, std::int64_t sum_group) {
  return {summed >= sum_group, summed % sum_group != 0};
}

/// A reduce made ready, once for each unit. Ranks form runs of neighbours; in each of them every element has a holder,
/// who adds the gradients of the run in rank order onto the sum that the run before it has reached, and leaves no trace
/// in it: a group that is open goes on to the next run, and the sum of complete groups to the next run in which one is
/// completed. So every algorithm computes the same sum, whatever travels:
///
///   direct, scatter  a run is a shard group; what a holder sums stays with it until the last pass
///   chain            every rank is a run: sums pass through all ranks, block by block
///   hierarchical     the neighbouring ranks of a node are a run, and share its elements evenly
///   tree             one run, one holder for all elements; gradients come, and sums go, by a binomial tree
///
/// Between the passes of a step the sums of chain and hierarchical stand with the owners of the last shard group.
struct Reduce {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::direct;  ///< what the runs were made by
  SegmentTable table;                                           ///< which rank of a shard group owns which elements
  /// Message by message, in order: who holds them is `list_of`. Of direct and scatter others' elements first, because
  /// they have farther to go; otherwise in buffer order, all runs cut alike. The lists of a run cover the buffer.
  std::vector<std::vector<Piece>> blocks;
  std::vector<int> list_of;     ///< of each rank: its index in blocks
  std::vector<RankGroup> runs;  ///< in rank order, all ranks of all shard groups
  /// Shard groups of as many ranks as the table has, one after the other: each sums its gradients onto the sums of the
  /// group before it, and all get the result.
  int replicas = 1;
  std::int64_t passes = 1;                ///< of a step, at least 1
  DType wire = DType::float32;            ///< what gradients travel as: ReduceSettings
  std::int64_t sum_group = 1;             ///< micro-batches of a group: ReduceSettings
  std::int64_t message = exchange_block;  ///< elements of a message, at most: message_elements
  int root = 0;                           ///< of tree: the holder
  bool open_between_runs = false;         ///< in some pass a group of the sum is not complete where a run ends
  bool open_between_passes = false;       ///< or where a pass ends

  /// Ranks of a shard group.
  [[nodiscard]] int members() const { return static_cast<int>(table.intervals.size()); }
  /// Blocks of one peer that a rank has room for.
  [[nodiscard]] std::size_t window() const { return static_cast<std::size_t>(reduce_room / message); }
  /// Ranks of all shard groups.
  [[nodiscard]] int world_size() const { return members() * replicas; }
  /// Pieces that `rank`, of all ranks, sums in its run, message by message.
  [[nodiscard]] const std::vector<Piece>& held_by(int rank) const {
    return blocks[static_cast<std::size_t>(list_of[static_cast<std::size_t>(rank)])];
  }
  /// Whether sums go to their owners after every pass, and come back from there before the next.
  [[nodiscard]] bool returns_sums() const {
    return algorithm == CollectiveAlgorithm::chain || algorithm == CollectiveAlgorithm::hierarchical;
  }
  /// Whether some group of the sum is complete with the gradients of run number `run` in pass number `pass`.
  [[nodiscard]] bool completes(std::size_t run, std::int64_t pass) const;
  /// The nearest run before number `run` that completes one; -1: none.
  [[nodiscard]] int completing_before(std::size_t run, std::int64_t pass) const;
  /// The first run from number `run` on that completes one; -1: none.
  [[nodiscard]] int completing_from(std::size_t run, std::int64_t pass) const;
  /// Index in `runs` of the one with `rank`.
  [[nodiscard]] std::size_t run_of(int rank) const;
  /// The rank of `run` that holds `block`, one of held_by's.
  [[nodiscard]] int holder_in(const RankGroup& run, const Piece& block) const;
};

/// What each rank does by an algorithm of reduce. `topology` is of all ranks: one shard group, or several one after the
/// other. direct: owners sum what they own, and receive (W - 1) times that. scatter: the most bytes that a rank
/// receives in a step of all passes, and after the last the sums of its own elements from other holders, are as few as
/// can be. chain: no rank sends more than the unit in a pass, besides its own elements; it receives that and its own,
/// and where it completes a group of the sum that others began, the unit twice. hierarchical: the same of nodes whose
/// ranks are neighbours, so that every byte goes once over every link; a node that completes a group and begins another
/// that it does not complete sends both. tree: log2 W messages to the holder, the rank that owns most, for small units.
/// Throws ContractError for an invalid table, a topology of another number of ranks, passes or sum_group < 1, padded
/// and allgatherv, which only unshard, and another wire than float32 and bfloat16; InputError where sum_group does not
/// divide the micro-batches of a step.
Reduce prepare_reduce(CollectiveAlgorithm algorithm, SegmentTable table, const Topology& topology,
                      const ReduceSettings& settings = {});

/// Whether all ranks send the same messages in the same order. direct and scatter do for an even table.
bool same_messages(const Reduce& a, const Reduce& b);

/// Of one shard group whose ranks share a node, summed from left to right.
Reduce prepare_reduce(CollectiveAlgorithm algorithm, SegmentTable table, std::int64_t passes = 1,
                      DType wire = DType::float32);

/// Of the gradients of a unit of `plan`: by `algorithm`, and of a replicated plan the chunks of the even cut, which
/// their owners then give to all.
Reduce prepare_reduce(const Plan& plan, std::size_t unit, const Topology& topology, const ReduceSettings& settings = {},
                      CollectiveAlgorithm algorithm = CollectiveAlgorithm::scatter);

/// ContractError that names `algorithm` unless it reduces: padded and allgatherv only unshard.
void require_reduces(CollectiveAlgorithm algorithm);

/// How one unit is unsharded, and its gradients reduced.
struct UnitAlgorithms {
  CollectiveAlgorithm unshard = CollectiveAlgorithm::scatter;  ///< of the weights, in forward and in backward
  CollectiveAlgorithm reduce = CollectiveAlgorithm::scatter;   ///< neither padded nor allgatherv
};

/// Elements that `rank` keeps between passes besides its own shard: sums of others' elements, and of groups that are
/// not complete.
std::int64_t running_sum_elements(const Reduce& reduce, int rank);

/// Where one peer's gradients arrive: block i in slot i mod Reduce::window, which has room for the longest of them.
struct ReduceSlots {
  std::vector<std::int64_t> begin;  ///< element at which each slot begins
  std::int64_t elements = 0;        ///< of all slots

  /// Where block number `block` begins.
  [[nodiscard]] std::int64_t of(std::size_t block) const { return begin[block % begin.size()]; }
};
/// Of the blocks that `rank` holds.
ReduceSlots reduce_slots(const Reduce& reduce, int rank);

/// What a reduce holds on a rank while it is under way.
struct ReduceStaging {
  std::int64_t gradients = 0;  ///< elements of others' gradients, as they travel
  std::int64_t arriving = 0;   ///< float32 elements of sums, where they come from others
  std::int64_t passing = 0;    ///< and where this rank's gradients are added to them

  /// Of all three, where gradients travel as `wire`.
  [[nodiscard]] std::int64_t bytes(DType wire) const {
    return static_cast<std::int64_t>(size_of(wire)) * gradients +
           static_cast<std::int64_t>(sizeof(float)) * (arriving + passing);
  }
};
/// A block in each slot from each other rank of the run, and of the sums that come from the run before, or from the
/// owners; and of what the rank holds by chain or hierarchical: the sums of groups that are not complete, and where
/// gradients travel as bfloat16 all sums, which stand in the gradient buffer otherwise. By tree: the gradients of its
/// subtree, and the sums for it.
ReduceStaging staging_of(const Reduce& reduce, int rank);

/// In bytes.
std::int64_t reduce_staging_bytes(const Reduce& reduce, int rank);

/// Ranks of a binomial tree in a circle, by position from the root: position p has the children p + 1, p + 2, p + 4,
/// ... as far as these stay below the lowest set bit of p, and its subtree is the positions from p on, `size` of them.
struct TreePosition {
  int position = 0;           ///< 0: the root; its rank is (root + position) mod W
  int parent = -1;            ///< position; -1: the root
  int size = 1;               ///< of the subtree, itself too
  std::vector<int> children;  ///< positions, the nearest first
};
/// Of `position`, in [0, world_size). Unchecked.
TreePosition tree_position(int position, int world_size);

}  // namespace matrixfsdp

#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/segment_table.hpp>
#include <matrixfsdp/plan/topology.hpp>

/// How a unit is unsharded: who sends which elements to whom, in which order. A schedule is made from the table and the
/// topology alone, so both sides of a transfer agree on it without a word; backends of comm carry it out. All
/// algorithms move copies, so the bits that arrive are the same.
namespace matrixfsdp {

enum class CollectiveAlgorithm {
  direct,        ///< every rank sends its segments to every other: one hop, O_max (W - 1) from the fullest rank
  chain,         ///< blocks pass from rank to rank, ordered by node: about P through each rank, whoever owns them
  scatter,       ///< two hops: owners spread blocks over helpers, helpers send them to all; rank loads are even
  tree,          ///< a binomial tree from each owner: log2 W hops, for small units
  hierarchical,  ///< a chain of nodes, each byte once over each link; inside a node from the rank where it arrived
  padded,        ///< the chain, with every rank's segments padded to the longest: the published ablation
  allgatherv,    ///< the MPI library's own
};

/// "direct", "chain", ... Throws InputError for any other name.
CollectiveAlgorithm parse_collective(std::string_view name);
std::string_view name_of(CollectiveAlgorithm algorithm);

/// Elements of a message, unless asked otherwise: 128 KiB of float32.
inline constexpr std::int64_t exchange_block = 32 * 1024;

/// Messages of an unshard that are under way from one rank to another at the same time.
inline constexpr int exchange_window = 4;

/// A message between two ranks.
struct BlockTransfer {
  Interval elements;         ///< of the buffer
  std::int64_t padding = 0;  ///< elements that nobody reads, instead
  std::int64_t after = -1;  ///< a send: the receive (its number in the schedule) that must be complete; -1: own segment

  [[nodiscard]] std::int64_t size() const { return elements.size() + padding; }
  bool operator==(const BlockTransfer&) const = default;
};

/// Messages to, or from, one peer, in order.
struct PeerTransfers {
  int peer = 0;
  std::vector<BlockTransfer> blocks;
  bool operator==(const PeerTransfers&) const = default;
};

/// One rank's part of an unshard. Receives are numbered through all peers, in the order in which they stand here.
struct TransferSchedule {
  std::vector<PeerTransfers> sends;
  std::vector<PeerTransfers> receives;
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
TransferCounts counts_of(const TransferSchedule& schedule, const Topology& topology, int rank);

/// Rank `rank`'s part of the unshard of `table`. Blocks have at most `block_elements` elements and do not cross
/// segments. Throws ContractError for an invalid table, a topology of another size, block_elements < 1, and for
/// allgatherv, which has no schedule of ours.
TransferSchedule unshard_schedule(CollectiveAlgorithm algorithm, const SegmentTable& table, const Topology& topology,
                                  int rank, std::int64_t block_elements = exchange_block);

/// An unshard made ready, once for each unit.
struct Unshard {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::direct;
  SegmentTable table;
  TransferSchedule schedule;    ///< of one rank; empty for allgatherv
  int first_rank = 0;           ///< of the communicator: the one that is rank 0 of table and schedule
  DType wire = DType::float32;  ///< what travels: float32, or bfloat16, which is then what arrives everywhere
};
/// Throws as unshard_schedule, and ContractError for another `wire` than float32 and bfloat16.
Unshard prepare_unshard(CollectiveAlgorithm algorithm, SegmentTable table, const Topology& topology, int rank,
                        std::int64_t block_elements = exchange_block, DType wire = DType::float32);

/// Elements of one owner that one rank, the holder, relays or sums: the owner itself, or a helper.
struct Piece {
  Interval elements;  ///< of the buffer
  int owner = 0;
  int holder = 0;
  bool operator==(const Piece&) const = default;
};

/// A reduce made ready, once for each unit. The holder of an element sums its gradients, and leaves no trace in the
/// sum.
struct Reduce {
  SegmentTable table;
  /// By holder, message by message, in order: others' elements first, because they have farther to go. All together
  /// cover the buffer.
  std::vector<std::vector<Piece>> blocks;
  /// Shard groups of as many ranks as the table has, one after the other: each sums its gradients onto the sums of the
  /// group before it, and all get the result.
  int replicas = 1;
  DType wire = DType::float32;  ///< of the gradients that travel, float32 or bfloat16; sums are float32

  [[nodiscard]] const std::vector<Piece>& held_by(int rank) const { return blocks[static_cast<std::size_t>(rank)]; }
};

/// direct: owners sum what they own, and receive (W - 1) times that. scatter: the most bytes that a rank receives in a
/// step of `passes` passes, and after the last the sums of its own elements from other holders, are as few as can be.
/// Throws ContractError for an invalid table, passes < 1, any other algorithm, and another `wire` than float32 and
/// bfloat16.
Reduce prepare_reduce(CollectiveAlgorithm algorithm, SegmentTable table, std::int64_t passes = 1,
                      DType wire = DType::float32);

/// Of the gradients of a unit of `plan`: by `algorithm`, and of a replicated plan the chunks of the even cut, which
/// their owners then give to all.
Reduce prepare_reduce(const Plan& plan, std::size_t unit, std::int64_t passes, DType wire = DType::float32,
                      CollectiveAlgorithm algorithm = CollectiveAlgorithm::scatter);

/// How one unit is unsharded, and its gradients reduced.
struct UnitAlgorithms {
  CollectiveAlgorithm unshard = CollectiveAlgorithm::scatter;
  CollectiveAlgorithm reduce = CollectiveAlgorithm::scatter;  ///< direct or scatter
};

/// Elements of others that `rank` sums: what it keeps between passes besides its own shard.
std::int64_t running_sum_elements(const Reduce& reduce, int rank);

/// Elements of the longest even-numbered and odd-numbered block of `rank`: where one peer's gradients arrive.
std::array<std::int64_t, 2> reduce_staging(const Reduce& reduce, int rank);

/// Bytes of staging that a reduce holds on `rank`: two blocks from each other rank, as they travel.
std::int64_t reduce_staging_bytes(const Reduce& reduce, int rank);

}  // namespace matrixfsdp

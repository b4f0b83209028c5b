#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/plan/plan.hpp>

/// @file
/// What an unshard or reduce will take, from counts alone, and so which algorithm to take. No communication: all ranks
/// that have the same profile choose alike.
///
/// A message of n bytes takes alpha + beta n (Hockney 1994), and each costs its rank time of its own (the overhead o of
/// LogP, Culler et al. 1993). Ranks of a node share its link and its memory, and nodes share what is between them.
/// Where all send to many, a byte takes longer than to one neighbour (contention, Steffenel 2006). For an algorithm:
///
///   seconds = sum of alpha over the hops of the longest way + max(drain, way)
///   drain   = the most of: a rank's messages and bytes; a node's bytes; the mean node's bytes at the speed that all
///             nodes reach at once
///   way     = the longest one of an owner's segments, or of the sums that pass from run to run: a message over every
///             hop, to all children there, and the rest over the slowest
///
/// times the factor by which a calibration found the algorithm to differ from that, for tables of such a size and
/// balance (correction_of): bursts that a link lets pass, sums, and whatever else counts and links do not show.
///
/// Caveat: the figures are of the moment. Overlap with compute, and with other collectives, is not in them.
namespace matrixfsdp {

/// One class of links.
struct LinkModel {
  double alpha_seconds = 0;               ///< of a hop
  double message_seconds = 0;             ///< of a rank, for each message
  double beta_seconds_per_byte = 0;       ///< of one rank that sends to another
  double node_beta_seconds_per_byte = 0;  ///< of a node's ranks together, to another node's
  double all_beta_seconds_per_byte = 0;   ///< of the mean node, where all send and receive at once
  double contention = 1;                  ///< factor on all three betas where all send to many
};

/// What a unit's collective is for.
enum class CollectiveOperation {
  unshard,  ///< copies from owners to all
  reduce,   ///< sums from all to owners
};

/// Inverse of parse_collective_operation. Unchecked: a value of the enumeration.
std::string_view name_of(CollectiveOperation operation);
/// "unshard" or "reduce". Throws InputError for another name.
CollectiveOperation parse_collective_operation(std::string_view name);

/// Measured seconds over those that the links alone predict, of one table.
struct CollectiveCorrection {
  CollectiveOperation operation = CollectiveOperation::unshard;  ///< which of the two was measured
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::scatter;  ///< by which way
  bool one_owner = false;                                        ///< rank 0 owns all; else all own the same
  std::int64_t bytes = 0;                                        ///< of the table, as float32
  double factor = 1;                                             ///< measured over predicted seconds
};

/// What a calibration has found, and of what.
struct CollectiveProfile {
  int world_size = 1;                             ///< ranks it was measured on
  int nodes = 1;                                  ///< nodes that they were on
  std::optional<LinkModel> inside;                ///< a node; empty where no node had two ranks
  std::optional<LinkModel> between;               ///< nodes; empty where there was one
  std::vector<CollectiveCorrection> corrections;  ///< in any order; none: the links alone
};

/// Throws InputError that names the figure, its value and what was expected unless world_size and nodes are at least 1
/// and nodes are not more, seconds are finite and not negative, and contention, bytes and factors are finite and
/// positive.
void validate(const CollectiveProfile& profile);

/// The factor on what the links alone predict: of the measured sizes on both sides of the table's, by the logarithm of
/// bytes, the nearest one beyond them; then between even tables and those of one owner by the largest share. 1 where
/// nothing was measured.
double correction_of(const CollectiveProfile& profile, CollectiveOperation operation, CollectiveAlgorithm algorithm,
                     const SegmentTable& table);

/// Throws InputError unless `profile` has figures for every class of links that `topology` has.
void require_links(const CollectiveProfile& profile, const Topology& topology);

/// Fingerprint of all figures.
std::uint64_t hash_of(const CollectiveProfile& profile);

/// counts_of of every rank's schedule, without making schedules. Throws as unshard_schedule does.
std::vector<TransferCounts> unshard_counts(CollectiveAlgorithm algorithm, const SegmentTable& table,
                                           const Topology& topology, std::optional<std::int64_t> block_elements = {});

/// What each rank sends and receives in pass number `pass` of a step. Throws ContractError for a topology of another
/// number of ranks, and a pass that the step does not have.
std::vector<TransferCounts> reduce_counts(const Reduce& reduce, const Topology& topology, std::int64_t pass = 0);

/// Of float32. 0 for one rank. Throws as unshard_counts, and as require_links.
double predicted_unshard_seconds(CollectiveAlgorithm algorithm, const SegmentTable& table, const Topology& topology,
                                 const CollectiveProfile& profile, std::optional<std::int64_t> block_elements = {});

/// Of pass number `pass`; gradients that travel as bfloat16 are counted as float32. 0 for one rank. Throws as
/// reduce_counts, and as require_links.
double predicted_reduce_seconds(const Reduce& reduce, const Topology& topology, const CollectiveProfile& profile,
                                std::int64_t pass = 0);

/// Of all passes of a step, of which those between the first and the last are taken to be like the second one. Throws
/// as prepare_reduce, and as predicted_reduce_seconds.
double predicted_reduce_step_seconds(CollectiveAlgorithm algorithm, const SegmentTable& table, const Topology& topology,
                                     const CollectiveProfile& profile, const ReduceSettings& settings = {});

/// What is predicted to be the fastest.
struct CollectiveChoice {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::scatter;  ///< one of collective_candidates
  double seconds = 0;                                            ///< predicted
};

/// Times that differ by less are equal: a calibration cannot tell them apart.
inline constexpr double collective_tie = 1.05;

/// What is chosen from, the earlier of equals: direct first where it unshards, scatter, which spreads the sums, where
/// it reduces; then hierarchical, which sends the least between nodes, where some but not all ranks share one (else it
/// is one of the others); chain; and tree. Hierarchical and tree not where an unshard's owners times W are more than
/// 2^24. Not padded, which is chain with more bytes, and not the library's, whose ways are its own.
std::vector<CollectiveAlgorithm> collective_candidates(CollectiveOperation operation, const SegmentTable& table,
                                                       const Topology& topology);

/// The fastest candidate. Throws as predicted_unshard_seconds.
CollectiveChoice choose_unshard(const SegmentTable& table, const Topology& topology, const CollectiveProfile& profile,
                                std::optional<std::int64_t> block_elements = {});

/// The fastest candidate over all passes of a step. Its seconds are those of the whole step. Throws as
/// predicted_reduce_step_seconds.
CollectiveChoice choose_reduce(const SegmentTable& table, const Topology& topology, const CollectiveProfile& profile,
                               const ReduceSettings& settings = {});

/// Of one unit. Forward and backward unshard the same table over the same links: one choice for both.
struct UnitCollectives {
  CollectiveChoice unshard;  ///< of the weights; of a replicated plan: of the summed gradients' chunks
  CollectiveChoice reduce;   ///< of the gradients
};

/// For each unit of `plan`. `topology` is of all ranks: of several shard groups all unshard as is best for the first
/// one, because all ranks issue the same. Throws ContractError where it has other ranks than whole shard groups, and as
/// the choices do.
std::vector<UnitCollectives> choose_collectives(const Plan& plan, const Topology& topology,
                                                const CollectiveProfile& profile, const ReduceSettings& settings = {});

}  // namespace matrixfsdp

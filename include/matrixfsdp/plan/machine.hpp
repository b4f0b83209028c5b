#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <matrixfsdp/plan/collective_model.hpp>

/// @file
/// The machine that a step is predicted for: nodes, links, and what a rank computes and remembers.
namespace matrixfsdp {

/// One class of links.
struct MachineLink {
  double latency_seconds = 0;        ///< of a hop
  double bytes_per_second = 1;       ///< of one rank that sends to another
  double node_bytes_per_second = 1;  ///< of all ranks of a node that send at once
};

/// A rank that takes `factor` times as long for everything it computes.
struct SlowRank {
  int rank = 0;       ///< of the machine
  double factor = 1;  ///< 1: as fast as the machine says
};

/// Rates are those that are reached, not those on the box.
struct Machine {
  std::string name;                           ///< for people: in reports and tables
  int nodes = 1;                              ///< ranks of a node share its memory
  int ranks_per_node = 1;                     ///< neighbours, node by node
  MachineLink inside;                         ///< a node
  MachineLink between;                        ///< nodes
  double gemm_flops_per_second = 1;           ///< of a rank: the matrix products of forward and backward
  double orthogonalize_flops_per_second = 1;  ///< of a rank: the products of the optimizer
  double memory_bytes = 1;                    ///< of a rank
  double memory_bytes_per_second = 1;         ///< of a rank: what the optimizer reads and writes
  std::vector<SlowRank> slow_ranks;           ///< by rank; others have a factor of 1

  /// Ranks of all nodes together.
  [[nodiscard]] std::int64_t ranks() const { return std::int64_t{nodes} * ranks_per_node; }
  /// Factor of `rank`.
  [[nodiscard]] double slowness(int rank) const;
};

/// Throws InputError that names the figure, its value and what was expected unless nodes and ranks per node are at
/// least 1, rates and bytes are finite and positive, latencies are finite and not negative, and slow ranks are ranks of
/// the machine, ascending, with finite factors of at least 1.
void validate(const Machine& machine);

/// "a100-8x8": 8 nodes of 8 A100 of 80 GB; a rank's links 20 GB/s and its products 177 TFLOP/s, which the published
/// figures of 8 nodes imply (Gao, Xu, Zhang 2026), a link of its own for each rank of a node. "h200-node": 8 H200
/// in one node. Throws InputError that lists the names.
Machine machine_preset(std::string_view name);
/// Names that machine_preset takes.
std::vector<std::string> machine_preset_names();

/// `machine` cut down, or extended, to `nodes` nodes of `ranks_per_node` ranks: the links stay as they are. Slow ranks
/// that it then does not have are left out.
Machine resized(Machine machine, int nodes, int ranks_per_node);

/// The machine's links as a calibration would have found them: no contention, no time of a message's own.
CollectiveProfile collective_profile(const Machine& machine);

}  // namespace matrixfsdp

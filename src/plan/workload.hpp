#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/planner.hpp>

namespace matrixfsdp::detail {

/// What a rank carries: bytes that stay (weights, gradients, state) and FLOPs of one optimizer step, or nanoseconds
/// that were measured instead.
struct Load {
  std::int64_t bytes = 0;
  std::int64_t flops = 0;

  Load& operator+=(Load other) {
    bytes += other.bytes;
    flops += other.flops;
    return *this;
  }
  Load& operator-=(Load other) {
    bytes -= other.bytes;
    flops -= other.flops;
    return *this;
  }
  friend Load operator+(Load a, Load b) { return a += b; }
  friend Load operator-(Load a, Load b) { return a -= b; }
  friend bool operator==(const Load&, const Load&) = default;
};

/// A matrix or a tail with at least one element.
struct Item {
  std::size_t unit = 0;
  std::size_t parameter = 0;
  std::int64_t elements = 0;
  Load load;
};

/// The model as the policies see it.
struct Workload {
  int world_size = 1;
  std::vector<Item> matrices;                  ///< canonical order: by unit, then by parameter
  std::vector<Item> tails;                     ///< likewise
  std::vector<std::int64_t> matrices_of_unit;  ///< their number
  Load total;                                  ///< of matrices and tails
  Load largest;                                ///< the most bytes and the most FLOPs of an item that is placed whole

  /// Load over its lower bound, which is max(mean over ranks, largest item): bytes or work, whichever is higher.
  [[nodiscard]] double key(Load load) const {
    const double bytes = static_cast<double>(load.bytes) * bytes_scale;
    const double flops = static_cast<double>(load.flops) * flops_scale;
    return bytes > flops ? bytes : flops;
  }
  /// Of `rank`: 1 is what all are to carry, each in proportion to its speed.
  [[nodiscard]] double key(Load load, std::size_t rank) const {
    return slowness.empty() ? key(load) : key(load) * slowness[rank];
  }
  /// Bytes that `rank` carries when all has its ideal share.
  [[nodiscard]] double share(std::size_t rank) const {
    const double mean = static_cast<double>(total.bytes) / world_size;
    return slowness.empty() ? mean : mean / slowness[rank];
  }
  /// True when ranks are enough for a rank of its own for each matrix of the unit.
  [[nodiscard]] bool spreads(std::size_t unit) const { return matrices_of_unit[unit] <= world_size; }

  double bytes_scale = 1.0;
  double flops_scale = 1.0;
  std::vector<double> slowness;  ///< per rank, with a mean speed (its inverse) of 1; empty: all are equally fast
};

/// `packed_tails`: tails are placed whole, so the largest one counts in the lower bound. `measured`: seconds of
/// matrices for FLOPs (those of tails then count nothing), and the ranks' speeds if they are those of world_size.
Workload make_workload(const ModelSpec& model, int world_size, const OptimizerCost& cost, bool packed_tails,
                       const MeasuredCosts* measured = nullptr);

/// Rank of each matrix, and the load of each rank.
struct Assignment {
  std::vector<int> owners;
  std::vector<Load> loads;

  /// max over ranks of Workload::key.
  [[nodiscard]] double worst(const Workload& workload) const;
};

}  // namespace matrixfsdp::detail

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/planner.hpp>

/// Random runs for property tests, and how they become smaller when a property fails.
namespace matrixfsdp::testing {

/// One model and everything that a run of it is free to choose.
struct PropertyCase {
  std::uint64_t seed = 0;  ///< it was drawn from; also of the gradients
  ModelSpec model;
  int ranks = 1;
  Policy policy = Policy::balanced;
  TailPlacement tails = TailPlacement::automatic;
  bool replicated = false;
  MatrixOptimizer matrices = MatrixOptimizer::muon;
  int prefetch = 1;
  std::int64_t passes = 1;
  std::int64_t steps = 2;
  double max_norm = 0;

  [[nodiscard]] std::int64_t micro_batches() const { return passes * ranks; }
  [[nodiscard]] Plan plan() const;
};

/// Of `seed` alone, with 1 to `most_ranks` ranks.
PropertyCase draw_case(std::uint64_t seed, int most_ranks);

/// For the message of a failure: everything that is not a default, one parameter a line.
std::string describe(const PropertyCase& sample);

/// Cases that are a little smaller: fewer units, parameters, ranks, steps or passes, smaller extents, no options.
std::vector<PropertyCase> smaller_cases(const PropertyCase& sample);

/// The smallest case that `fails`, by following the first smaller case that does, with at most `tries` calls.
PropertyCase shrink(PropertyCase sample, const std::function<bool(const PropertyCase&)>& fails, int tries = 300);

/// Seeds to try: MATRIXFSDP_PROPERTY_SEEDS (a count), MATRIXFSDP_PROPERTY_FIRST (default 1).
struct PropertySeeds {
  std::uint64_t first = 1;
  std::uint64_t count = 30;
};
PropertySeeds property_seeds();

}  // namespace matrixfsdp::testing

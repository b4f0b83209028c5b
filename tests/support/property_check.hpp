#pragma once

#include <algorithm>
#include <cstdio>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>

#include "support/agree.hpp"
#include "support/mpi_world.hpp"
#include "support/property_case.hpp"

/// Checks a property on random cases under mpiexec.
namespace matrixfsdp::testing {

/// Communicators of 1, 2, ... ranks for the cases; new ones after a failure, which may leave messages behind.
class PropertyWorlds {
 public:
  /// The first `ranks` ranks, or the others. Collective over all.
  Communicator& part(int ranks) { return made(ranks, world().rank() < ranks ? 0 : 1); }
  /// This rank alone. Collective over all.
  Communicator& alone() { return made(0, world().rank()); }
  void forget() { parts_.clear(); }

 private:
  Communicator& made(int key, int color) {
    const auto found = parts_.find(key);
    if (found != parts_.end()) return found->second;
    Communicator part = mpi::split(MPI_COMM_WORLD, color, world().rank());
    part.set_deadline(std::chrono::seconds(10));
    return parts_.emplace(key, std::move(part)).first->second;
  }

  std::map<int, Communicator> parts_;
};

/// Empty where the property holds, else what is wrong. Called on the case's ranks, with their communicator and one of
/// this rank alone.
using Property = std::function<std::string(const PropertyCase&, Communicator& ranks, Communicator& alone)>;

/// The first rank's failure, on every rank; an exception is a failure.
inline std::string failure_of(PropertyWorlds& worlds, const Property& property, const PropertyCase& sample) {
  Communicator& part = worlds.part(sample.ranks);
  Communicator& alone = worlds.alone();
  std::string mine;
  if (world().rank() < sample.ranks) {
    try {
      mine = property(sample, part, alone);
    } catch (const std::exception& error) {
      mine = error.what();
    }
  }
  std::string first = first_of_all_ranks(mine);
  if (!first.empty()) worlds.forget();
  return first;
}

/// Fails with the seed and the smallest case that fails too.
inline void check_property(const char* name, const Property& property) {
  const PropertySeeds seeds = property_seeds();
  if (world().rank() == 0) fmt::print("  {}: seeds {} to {}\n", name, seeds.first, seeds.first + seeds.count - 1);
  PropertyWorlds worlds;
  for (std::uint64_t seed = seeds.first; seed < seeds.first + seeds.count; ++seed) {
    const PropertyCase sample = draw_case(seed, world().size());
    const std::string failure = failure_of(worlds, property, sample);
    if (failure.empty()) continue;
    const PropertyCase smallest =
        shrink(sample, [&](const PropertyCase& smaller) { return !failure_of(worlds, property, smaller).empty(); });
    FAIL() << name << ": " << failure << "\nRun again with MATRIXFSDP_PROPERTY_FIRST=" << seed
           << " MATRIXFSDP_PROPERTY_SEEDS=1. The smallest case that fails:\n"
           << describe(smallest) << failure_of(worlds, property, smallest);
  }
}

}  // namespace matrixfsdp::testing

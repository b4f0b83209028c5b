#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include <matrixfsdp/comm/mpi.hpp>

#include "support/mpi_world.hpp"

/// Smaller worlds inside the world of a test program.
namespace matrixfsdp::testing {

/// Every number of ranks that splits the world into groups of one size, from 1 to all.
inline std::vector<int> group_sizes() {
  std::vector<int> sizes;
  for (int size = 1; size <= world().size(); ++size) {
    if (world().size() % size == 0) sizes.push_back(size);
  }
  return sizes;
}

/// Runs `body(communicator)` on the first `size` ranks, as a world of their own.
inline void on_first_ranks(int size, const std::function<void(Communicator&)>& body) {
  const bool member = world().rank() < size;
  {
    Communicator part = mpi::split(MPI_COMM_WORLD, member ? 0 : 1, world().rank());
    part.set_deadline(std::chrono::seconds(30));
    if (member) body(part);
  }
  world().barrier({"end of a part", "", ""});
}

/// A world of this rank alone, for references with W = 1. Every rank calls it.
inline Communicator alone() {
  Communicator part = mpi::split(MPI_COMM_WORLD, world().rank(), 0);
  part.set_deadline(std::chrono::seconds(30));
  return part;
}

}  // namespace matrixfsdp::testing

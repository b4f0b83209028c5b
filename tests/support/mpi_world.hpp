#pragma once

#include <matrixfsdp/comm/communicator.hpp>

/// The session of a test program under mpiexec (support/mpi_main.cpp).
namespace matrixfsdp::testing {

/// All ranks. Its deadline is 30 s, so that a test that would hang fails.
Communicator& world();

/// A communicator of the test's own over all ranks: a test that breaks the order of messages does not disturb the
/// others.
Communicator duplicate_world();

/// The sum of one number of each rank, on every rank; added in the order of ranks.
template <class T>
T sum_over_ranks(T mine) {
  T sum = 0;
  for (const T value : all_gather_value(world(), Purpose::other, mine, {"sum", "", "test"}))
    sum += value;
  return sum;
}

}  // namespace matrixfsdp::testing

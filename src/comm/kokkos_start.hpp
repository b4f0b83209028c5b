#pragma once

#include <string>

#include <matrixfsdp/comm/communicator.hpp>

namespace matrixfsdp {

/// Starts Kokkos with `threads` host threads and, on a device backend, the device local_rank % devices.
void start_kokkos(int threads, int local_rank);

/// "Kokkos 4.6.1 OpenMP".
std::string kokkos_description();

/// Compares the devices of all ranks and names those that share one (CASES 67): one line, the same on every rank; empty
/// where none do, and on host backends.
std::string shared_devices(Communicator& world, const std::string& node);

}  // namespace matrixfsdp

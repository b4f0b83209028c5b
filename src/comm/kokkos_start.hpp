#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>

namespace matrixfsdp {

/// Starts Kokkos with `threads` host threads and, on a device backend, the device_of `local_rank`.
void start_kokkos(int threads, int local_rank);

/// "Kokkos 4.6.1 OpenMP".
std::string kokkos_description();

/// Bus address and node of every rank's device, by rank, the same for ranks that share one; "" on host backends.
/// Collective.
std::vector<std::string> devices_of_ranks(Communicator& world, const std::string& node);

}  // namespace matrixfsdp

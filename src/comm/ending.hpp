#pragma once

#include <chrono>
#include <string_view>

namespace matrixfsdp {

/// Waits until every rank of MPI_COMM_WORLD has come here; false when the deadline passes first. Polls.
bool meet(std::chrono::milliseconds deadline);

/// Kokkos (where it is running), then MPI. All ranks have met before. `pause`: wait a little without MPI calls, so that
/// the last messages between nodes have left before connections are closed (UCX over TCP can hang in MPI_Finalize).
void end_kokkos_and_mpi(bool pause);

/// Writes `line` to standard error, gives the launcher time to forward it (hydra drops what it has not read when a rank
/// aborts), and ends the job with exit_error.
void tell_and_abort(std::string_view line);

}  // namespace matrixfsdp

#include "comm/ending.hpp"

#include <cstdio>
#include <thread>

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/log.hpp>

#include "comm/mpi/check.hpp"

namespace matrixfsdp {

bool meet(std::chrono::milliseconds deadline) {
  MPI_Request request = MPI_REQUEST_NULL;
  mpi::check(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
  return mpi::complete_within(request, deadline, "MPI_Ibarrier");
}

void end_kokkos_and_mpi(bool pause) {
  if (Kokkos::is_initialized()) Kokkos::finalize();
  if (pause) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  MPI_Finalize();
}

void tell_and_abort(std::string_view line) {
  log_line(line);
  std::fflush(nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  MPI_Abort(MPI_COMM_WORLD, exit_error);
}

}  // namespace matrixfsdp

#pragma once

#include <chrono>

#include <mpi.h>

namespace matrixfsdp::mpi {

/// Throws CommunicationError with MPI's own text unless `code` is MPI_SUCCESS.
void check(int code, const char* call);

/// MPI has been started and not yet ended.
bool running();

/// Tests `request` until it is complete; false when the deadline passes first (the request is then left to MPI).
bool complete_within(MPI_Request& request, std::chrono::milliseconds deadline, const char* call);

}  // namespace matrixfsdp::mpi

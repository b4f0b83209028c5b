#include "comm/mpi/check.hpp"

#include <array>
#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/backoff.hpp"

namespace matrixfsdp::mpi {

void check(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  if (MPI_Error_string(code, text.data(), &length) != MPI_SUCCESS) length = 0;
  std::string message(text.data(), static_cast<std::size_t>(length));
  for (char& c : message) {
    if (c == '\n') c = ' ';  // MPICH's texts are stacks of lines; ours is one
  }
  throw CommunicationError(fmt::format("{} failed with code {}: {}", call, code, message));
}

bool running() {
  int initialized = 0;
  int finalized = 0;
  return MPI_Initialized(&initialized) == MPI_SUCCESS && initialized != 0 && MPI_Finalized(&finalized) == MPI_SUCCESS &&
         finalized == 0;
}

bool complete_within(MPI_Request& request, std::chrono::milliseconds deadline, const char* call) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  Backoff backoff;
  for (;;) {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    if (done != 0) return true;
    if (std::chrono::steady_clock::now() > end) return false;
    backoff.pause();
  }
}

}  // namespace matrixfsdp::mpi

#include <exception>
#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>

#include "comm/ending.hpp"
#include "comm/mpi/check.hpp"

namespace matrixfsdp {
namespace {

/// An InputError is every rank's: a rank that does not come within this time has met something else.
constexpr std::chrono::seconds others_come_within{20};

int world_rank() {
  int rank = 0;
  if (mpi::running()) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int abort_job(std::string_view message) {
  if (!mpi::running()) {
    log_line(message);
    return exit_error;
  }
  tell_and_abort(fmt::format("rank {}: {}", world_rank(), message));
  return exit_error;
}

/// The session was destroyed while the exception unwound, so it has ended nothing.
int end_in_order(std::string_view message) {
  if (world_rank() == 0) log_line(message);
  if (!mpi::running()) return exit_error;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  bool all_here = false;
  try {
    all_here = meet(others_come_within);
  } catch (const std::exception& error) {
    return abort_job(error.what());
  }
  if (!all_here) return abort_job(fmt::format("{} (the other ranks have not met this error)", message));
  end_kokkos_and_mpi(size > 1);
  return exit_error;
}

}  // namespace

int run_main(const std::function<int()>& body) {
  try {
    return body();
  } catch (const InputError& error) {
    return end_in_order(error.what());
  } catch (const std::exception& error) {
    return abort_job(error.what());
  } catch (...) {
    return abort_job("an exception of unknown type");
  }
}

}  // namespace matrixfsdp

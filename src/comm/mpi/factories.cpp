#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/channel.hpp"
#include "comm/mpi/check.hpp"

namespace matrixfsdp::mpi {
namespace {

void require_usable(MPI_Comm comm, const char* factory) {
  if (!running()) throw ContractError(fmt::format("{}: MPI is not running: expected MPI_Init before", factory));
  if (comm == MPI_COMM_NULL) throw ContractError(fmt::format("{}: MPI_COMM_NULL: expected a communicator", factory));
}

/// Without MPI_ERRORS_RETURN a failure would end the job before it has been told.
Communicator own(MPI_Comm comm) {
  check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return Communicator(std::make_unique<Communicator::Implementation>(comm, true));
}

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

Communicator adopt(MPI_Comm comm) {
  require_usable(comm, "adopt");
  return Communicator(std::make_unique<Communicator::Implementation>(comm, false));
}

Communicator duplicate(MPI_Comm comm, std::chrono::milliseconds deadline) {
  require_usable(comm, "duplicate");
  MPI_Request request = MPI_REQUEST_NULL;
  // MPI writes the handle later: on the heap, and left there when the deadline passes.
  auto copy = std::make_unique<MPI_Comm>(MPI_COMM_NULL);
  check(MPI_Comm_idup(comm, copy.get(), &request), "MPI_Comm_idup");
  if (!complete_within(request, deadline, "MPI_Comm_idup")) {
    static_cast<void>(copy.release());
    throw CommunicationError(
        fmt::format("duplicate a communicator: not every rank has come within {:.1f} s", seconds(deadline)));
  }
  return own(*copy);
}

Communicator duplicate(const Communicator& communicator) {
  Communicator copy = duplicate(communicator.implementation().channel->comm, communicator.deadline());
  copy.set_deadline(communicator.deadline());
  return copy;
}

Communicator split(MPI_Comm comm, int color, int key, std::chrono::milliseconds deadline) {
  require_usable(comm, "split");
  if (color < 0) throw ContractError(fmt::format("split: color {}: expected color >= 0", color));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibarrier(comm, &request), "MPI_Ibarrier");
  if (!complete_within(request, deadline, "MPI_Ibarrier")) {
    throw CommunicationError(
        fmt::format("split a communicator: not every rank has come within {:.1f} s", seconds(deadline)));
  }
  MPI_Comm part = MPI_COMM_NULL;
  check(MPI_Comm_split(comm, color, key, &part), "MPI_Comm_split");
  return own(part);
}

std::string library_description() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI, version unknown";
  text.resize(static_cast<std::size_t>(length));
  // MPICH tells its whole configuration, line by line: the first line is the name and the version.
  text.resize(std::min(text.size(), text.find('\n')));
  text.erase(std::remove(text.begin(), text.end(), '\t'), text.end());
  return text;
}

}  // namespace matrixfsdp::mpi

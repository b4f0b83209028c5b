#include <array>
#include <string_view>

#include <Kokkos_Core.hpp>
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
  // MPI writes the handle later: when the deadline passes, the handle lives as long as Kokkos, until all ranks have
  // met.
  const auto copy = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  check(MPI_Comm_idup(comm, copy.get(), &request), "MPI_Comm_idup");
  if (!complete_within(request, deadline, "MPI_Comm_idup")) {
    Kokkos::push_finalize_hook([copy] {});
    throw CommunicationError(
        fmt::format("duplicate a communicator: not every rank has come within {:.1f} s", seconds(deadline)));
  }
  return own(*copy);
}

Communicator duplicate(const Communicator& communicator) {
  Communicator copy = duplicate(communicator.implementation().channel->comm, communicator.deadline());
  copy.set_deadline(communicator.deadline());
  copy.implementation().channel->stages = communicator.implementation().channel->stages;
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

Topology topology_of(Communicator& communicator) {
  communicator.barrier({"find neighbours", "", ""});
  const MPI_Comm all = communicator.implementation().channel->comm;
  MPI_Comm node = MPI_COMM_NULL;
  check(MPI_Comm_split_type(all, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
  MPI_Group node_group = MPI_GROUP_NULL;
  MPI_Group all_group = MPI_GROUP_NULL;
  check(MPI_Comm_group(node, &node_group), "MPI_Comm_group");
  check(MPI_Comm_group(all, &all_group), "MPI_Comm_group");
  const int first_neighbour = 0;
  int first = 0;
  check(MPI_Group_translate_ranks(node_group, 1, &first_neighbour, all_group, &first), "MPI_Group_translate_ranks");
  check(MPI_Group_free(&all_group), "MPI_Group_free");
  check(MPI_Group_free(&node_group), "MPI_Group_free");
  check(MPI_Comm_free(&node), "MPI_Comm_free");
  return {all_gather_value(communicator, Purpose::other, first, {"find neighbours", "", ""})};
}

std::string library_description() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  if (MPI_Get_library_version(text.data(), &length) != MPI_SUCCESS) return "MPI, version unknown";
  // MPICH tells its whole configuration, line by line: the first line is the name and the version, padded with tabs.
  std::string line;
  for (const char c : std::string_view(text.data(), static_cast<std::size_t>(length))) {
    if (c == '\n') break;
    if (c != '\t')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  return line;
}

}  // namespace matrixfsdp::mpi

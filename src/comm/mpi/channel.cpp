#include "comm/mpi/channel.hpp"

#include <exception>
#include <utility>

#include <Kokkos_Core.hpp>

#include <matrixfsdp/plan/collective.hpp>

#include "comm/mpi/check.hpp"
#include "comm/mpi/pending.hpp"

namespace matrixfsdp {
namespace {

/// MPI may still read or write the staging of abandoned operations, and that is Kokkos memory: it lives as long as
/// Kokkos. Kokkos is ended when all ranks are done (Session has met them).
void keep_to_the_end(const std::shared_ptr<mpi::Channel>& channel) noexcept {
  if (!Kokkos::is_initialized()) return channel->end_abandoned();
  Kokkos::push_finalize_hook([channel] { channel->end_abandoned(); });
}

}  // namespace

namespace mpi {

Channel::Channel(MPI_Comm communicator) : comm(communicator) {
  check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  void* value = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr(MPI_TAG_UB)");
  largest_tag = found != 0 ? *static_cast<int*>(value) : 32767;  // the least that the standard allows
}

void Channel::sweep() {
  std::erase_if(graveyard, [](const std::shared_ptr<Pending>& operation) { return operation->settled(); });
  graveyard.reserve(open_operations);
}

void Channel::end_abandoned() noexcept {
  for (const auto& operation : graveyard)
    operation->give_up();
  std::erase_if(graveyard, [](const std::shared_ptr<Pending>& operation) { return operation->settled(); });
}

Request issue(const std::shared_ptr<Pending>& operation, const OperationLabel& label) {
  const std::shared_ptr<Channel> channel = operation->channel();
  channel->sweep();
  const auto sequence = operation->sequence();
  Request request(operation, label, channel->rank, sequence, channel->deadline);
  if (request.test()) return request;
  const std::lock_guard lock(channel->mutex);
  channel->background.push_back(operation.get());
  if (channel->background.size() == 1) channel->issued.notify_one();
  return request;
}

}  // namespace mpi

Communicator::Implementation::Implementation(MPI_Comm comm, bool owns_comm)
    : channel(std::make_shared<mpi::Channel>(comm)), owned(owns_comm) {}

Communicator::Implementation::~Implementation() {
  // MPI_Comm_free is collective by the letter of the standard: not while an exception unwinds on this rank alone. After
  // an abandoned operation the context stays taken: MPI would give it to a new communicator, and what is left of the
  // operation would meet the new one's messages (seen with MPICH 4.0.2).
  const bool free = owned && !channel->was_abandoned && std::uncaught_exceptions() == 0 && mpi::running();
  if (free) MPI_Comm_free(&channel->comm);
  if (!channel->graveyard.empty()) keep_to_the_end(channel);
}

}  // namespace matrixfsdp

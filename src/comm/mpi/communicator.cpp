#include <mutex>
#include <utility>

#include "comm/mpi/channel.hpp"

namespace matrixfsdp {

Communicator::Communicator(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

int Communicator::rank() const {
  return implementation_->channel->rank;
}
int Communicator::size() const {
  return implementation_->channel->size;
}

std::chrono::milliseconds Communicator::deadline() const {
  return implementation_->channel->deadline;
}
void Communicator::set_deadline(std::chrono::milliseconds deadline) {
  implementation_->channel->deadline = deadline;
}

ByteCounts Communicator::bytes() const {
  const std::lock_guard lock(implementation_->channel->mutex);
  return implementation_->channel->bytes;
}

}  // namespace matrixfsdp

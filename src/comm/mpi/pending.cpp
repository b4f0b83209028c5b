#include "comm/mpi/pending.hpp"

#include <utility>

namespace matrixfsdp::mpi {

Pending::Pending(std::shared_ptr<Channel> channel)
    : channel_(std::move(channel)), sequence_(channel_->next_sequence++) {
  ++channel_->open_operations;
}

Pending::~Pending() {
  --channel_->open_operations;
}

void Pending::abandon(std::shared_ptr<Request::Operation> self) noexcept {
  channel_->was_abandoned = true;
  // Channel::sweep made room for it when it was issued.
  if (!settled()) channel_->graveyard.push_back(std::static_pointer_cast<Pending>(std::move(self)));
}

}  // namespace matrixfsdp::mpi

#include "comm/mpi/pending.hpp"

#include <algorithm>
#include <utility>

namespace matrixfsdp::mpi {

Pending::Pending(std::shared_ptr<Channel> channel)
    : channel_(std::move(channel)), sequence_(channel_->next_sequence++) {
  ++channel_->open_operations;
}

Pending::~Pending() {
  --channel_->open_operations;
}

bool Pending::advance() {
  const std::lock_guard lock(channel_->mutex);
  if (!complete_ && !error_) drive();
  if (error_) std::rethrow_exception(error_);
  return complete_;
}

bool Pending::advance_in_background() noexcept {
  const std::uint64_t before = messages();
  drive();
  return messages() != before;
}

void Pending::drive() noexcept {
  try {
    complete_ = step();
  } catch (...) {
    error_ = std::current_exception();
  }
  if (!complete_ && !error_) return;
  end_ = Clock::now();
  leave_background();
}

void Pending::leave_background() noexcept {
  std::erase(channel_->background, this);
}

bool Pending::complete() const {
  const std::lock_guard lock(channel_->mutex);
  return complete_;
}

std::uint64_t Pending::progress() const {
  const std::lock_guard lock(channel_->mutex);
  return messages();
}

std::string Pending::missing() const {
  const std::lock_guard lock(channel_->mutex);
  return waiting_for();
}

double Pending::seconds() const {
  const std::lock_guard lock(channel_->mutex);
  return std::chrono::duration<double>(end_ - begin_).count();
}

void Pending::abandon(std::shared_ptr<Request::Operation> self) noexcept {
  const std::lock_guard lock(channel_->mutex);
  leave_background();
  channel_->was_abandoned = true;
  // Channel::sweep made room for it when it was issued.
  if (!settled()) channel_->graveyard.push_back(std::static_pointer_cast<Pending>(std::move(self)));
}

}  // namespace matrixfsdp::mpi

#include "comm/nccl/operation.hpp"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::nccl {

Operation::Operation(std::shared_ptr<Engine> engine)
    : engine_(std::move(engine)), sequence_(engine_->channel()->next_sequence++) {
  ready_.record(kernel_stream());
  add([this] { ready_.hold_back(engine_->stream()); });
}

void Operation::add_groups(std::vector<Group> groups, Purpose purpose) {
  for (Group& group : groups) {
    if (!group.empty()) add([this, purpose, moved = std::move(group)] { engine_->run_group(moved, purpose); });
  }
}

void Operation::add_kernel(Kernel kernel) {
  Kernel& kept = kernels_.emplace_back(std::move(kernel));
  add([this, &kept] { engine_->run_kernel(kept); });
}

std::byte* Operation::make_staging(std::int64_t bytes) {
  staging_ = make_tensor<std::byte>("matrixfsdp::nccl_staging", bytes);
  return staging_.data();
}

void Operation::finish() {
  add([this] { done_.record(engine_->stream()); });
}

bool Operation::enqueue_next() {
  if (next_ == steps_.size()) return false;
  steps_[next_]();
  ++next_;
  return true;
}

bool Operation::reached_end() {
  if (next_ < steps_.size() || !done_.reached()) return false;
  seconds_ = std::chrono::duration<double>(Clock::now() - begin_).count();
  return true;
}

bool Operation::advance() {
  engine_->require_alive();
  // What has ended in order stays good, whatever a peer does to the communicator afterwards.
  if (reached_end()) return true;
  engine_->pump();
  return reached_end();
}

bool Operation::complete() const {
  try {
    return engine_->alive() && next_ == steps_.size() && done_.reached();
  } catch (const CommunicationError&) {
    return false;  // advance() tells it
  }
}

std::string Operation::missing() const {
  if (next_ < steps_.size()) return fmt::format("NCCL has taken {} of {} steps", next_, steps_.size());
  return "all of it is with NCCL, and the stream has not come to its end";
}

void Operation::abandon(std::shared_ptr<Request::Operation> self) noexcept {
  try {
    if (reached_end()) return;
    engine_->fail(fmt::format("the request of sequence {} was given up before it was complete", sequence_));
  } catch (const std::exception& error) {
    engine_->fail(error.what());
  }
  engine_->bury(std::static_pointer_cast<Operation>(std::move(self)));
}

}  // namespace matrixfsdp::nccl

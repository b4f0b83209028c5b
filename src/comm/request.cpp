#include <exception>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/comm/request.hpp>
#include <matrixfsdp/core/error.hpp>

#include "comm/backoff.hpp"

namespace matrixfsdp {

std::string to_string(const OperationLabel& label) {
  std::string text = label.operation.empty() ? "operation" : label.operation;
  if (!label.unit.empty()) text += " of unit " + label.unit;
  if (!label.phase.empty()) text += " (" + label.phase + ")";
  return text;
}

Request::Request(std::shared_ptr<Operation> operation, OperationLabel label, int rank, std::uint64_t sequence,
                 std::chrono::milliseconds deadline)
    : operation_(std::move(operation)),
      label_(std::move(label)),
      rank_(rank),
      sequence_(sequence),
      deadline_(deadline) {}

Request::Request(Request&& other) noexcept
    : operation_(std::exchange(other.operation_, nullptr)),
      label_(std::move(other.label_)),
      rank_(other.rank_),
      sequence_(other.sequence_),
      deadline_(other.deadline_),
      seconds_(other.seconds_) {}

Request& Request::operator=(Request&& other) noexcept {
  if (this == &other) return *this;
  release();
  operation_ = std::exchange(other.operation_, nullptr);
  label_ = std::move(other.label_);
  rank_ = other.rank_;
  sequence_ = other.sequence_;
  deadline_ = other.deadline_;
  seconds_ = other.seconds_;
  return *this;
}

Request::~Request() {
  release();
}

void Request::release() noexcept {
  if (!operation_) return;
  Operation& operation = *operation_;
  operation.abandon(std::move(operation_));
  operation_ = nullptr;
}

std::string Request::describe() const {
  return fmt::format("rank {}: {}, sequence {}", rank_, to_string(label_), sequence_);
}

bool Request::test() {
  if (!operation_) return true;
  try {
    if (!operation_->advance()) return false;
  } catch (const CommunicationError& error) {
    throw CommunicationError(fmt::format("{}: {}", describe(), error.what()));
  }
  seconds_ = operation_->seconds();
  operation_ = nullptr;
  return true;
}

bool Request::complete() const {
  return !operation_ || operation_->complete();
}

void Request::wait() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Backoff backoff;
  for (std::uint64_t progress = 0; !test();) {
    const auto waited = Clock::now() - begin;
    if (waited > deadline_) {
      const std::string missing = operation_->missing();
      throw CommunicationError(fmt::format("{}: not complete after {:.1f} s (deadline {:.1f} s){}{}", describe(),
                                           std::chrono::duration<double>(waited).count(),
                                           std::chrono::duration<double>(deadline_).count(),
                                           missing.empty() ? "" : ": ", missing));
    }
    if (operation_->progress() != progress) {
      progress = operation_->progress();
      backoff.restart();
    }
    backoff.pause();
  }
}

}  // namespace matrixfsdp

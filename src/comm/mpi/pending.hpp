#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "comm/mpi/channel.hpp"

namespace matrixfsdp::mpi {

/// An operation that MPI may still work on after its Request is gone, and that a progress thread may advance. The
/// virtual functions are called with the channel locked.
class Pending : public Request::Operation {
 public:
  explicit Pending(std::shared_ptr<Channel> channel);
  ~Pending() override;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  bool advance() final;
  [[nodiscard]] bool complete() const final;
  [[nodiscard]] std::uint64_t progress() const final;
  [[nodiscard]] std::string missing() const final;
  [[nodiscard]] double seconds() const final;
  void abandon(std::shared_ptr<Request::Operation> self) noexcept final;

  /// By the progress thread, with the channel locked: advances; true when something has moved. An error waits for
  /// advance().
  bool advance_in_background() noexcept;

  /// MPI holds nothing of this operation any more. Starts nothing.
  virtual bool settled() noexcept = 0;
  /// No rank takes part any more: nothing that has not begun to arrive will be received, nor is anything read that no
  /// rank has taken.
  virtual void give_up() noexcept = 0;

  [[nodiscard]] const std::shared_ptr<Channel>& channel() const { return channel_; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }

 protected:
  /// As Operation::advance, progress and missing.
  virtual bool step() = 0;
  [[nodiscard]] virtual std::uint64_t messages() const { return 0; }
  [[nodiscard]] virtual std::string waiting_for() const { return {}; }

  [[nodiscard]] int rank() const { return channel_->rank; }
  [[nodiscard]] int size() const { return channel_->size; }

 private:
  using Clock = std::chrono::steady_clock;

  void drive() noexcept;
  void leave_background() noexcept;

  std::shared_ptr<Channel> channel_;
  std::uint64_t sequence_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point end_;
  bool complete_ = false;
  std::exception_ptr error_;  ///< of step(): the operation is lost
};

}  // namespace matrixfsdp::mpi

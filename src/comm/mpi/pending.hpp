#pragma once

#include <cstdint>
#include <memory>

#include "comm/mpi/channel.hpp"

namespace matrixfsdp::mpi {

/// An operation that MPI may still work on after its Request is gone.
class Pending : public Request::Operation {
 public:
  explicit Pending(std::shared_ptr<Channel> channel);
  ~Pending() override;
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  void abandon(std::shared_ptr<Request::Operation> self) noexcept final;

  /// MPI holds nothing of this operation any more. Starts nothing.
  virtual bool settled() noexcept = 0;
  /// No rank takes part any more: nothing that has not begun to arrive will be received, nor is anything read that no
  /// rank has taken.
  virtual void give_up() noexcept = 0;

  [[nodiscard]] const std::shared_ptr<Channel>& channel() const { return channel_; }
  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }

 protected:
  [[nodiscard]] int rank() const { return channel_->rank; }
  [[nodiscard]] int size() const { return channel_->size; }

 private:
  std::shared_ptr<Channel> channel_;
  std::uint64_t sequence_;
};

}  // namespace matrixfsdp::mpi

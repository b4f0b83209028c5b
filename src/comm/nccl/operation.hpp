#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <matrixfsdp/tensor/tensor.hpp>

#include "comm/nccl/engine.hpp"

namespace matrixfsdp::nccl {

/// A gather or a reduce: steps that enqueue work on the engine's stream, and an event behind the last. It owns what the
/// work reads and writes besides the caller's tensors.
class Operation final : public Request::Operation {
 public:
  /// Its work waits for the kernels that have been started up to now (CASES 40).
  explicit Operation(std::shared_ptr<Engine> engine);

  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }
  void add_groups(std::vector<Group> groups, Purpose purpose);
  void add_kernel(Kernel kernel);
  /// Staging that lives as long as the operation.
  std::byte* make_staging(std::int64_t bytes);
  /// Nothing is added after this.
  void finish();

  /// One step; false where none is left.
  bool enqueue_next();

  bool advance() override;
  [[nodiscard]] bool complete() const override;
  [[nodiscard]] double seconds() const override { return seconds_; }
  [[nodiscard]] std::uint64_t progress() const override { return engine_->enqueued(); }
  [[nodiscard]] std::string missing() const override;
  void abandon(std::shared_ptr<Request::Operation> self) noexcept override;

  [[nodiscard]] std::uint64_t sequence() const { return sequence_; }

 private:
  using Clock = std::chrono::steady_clock;

  /// Everything is enqueued, and the stream has come to its end. Throws CommunicationError where the device has failed.
  bool reached_end();

  std::shared_ptr<Engine> engine_;
  std::uint64_t sequence_;
  std::vector<std::function<void()>> steps_;
  std::size_t next_ = 0;
  std::deque<Kernel> kernels_;  // host functions keep their addresses
  Tensor<std::byte> staging_;
  Event ready_;
  Event done_;
  Clock::time_point begin_ = Clock::now();
  double seconds_ = 0;  // once it is complete
};

}  // namespace matrixfsdp::nccl

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

namespace matrixfsdp {

/// What an operation is, for messages: "unshard of unit block.3 (forward)".
struct OperationLabel {
  std::string operation;  ///< "unshard", "reduce", "norm exchange", ...
  std::string unit;       ///< empty where there is none
  std::string phase;      ///< "forward", "backward", "step", ...
};

/// "unshard of unit block.3 (forward)", without the parts that are empty.
std::string to_string(const OperationLabel& label);

/// A started non-blocking operation: it owns its staging buffers and advances inside test() and wait(), and where its
/// communicator has a ProgressThread also between them. The tensors that it reads or writes must live until it is
/// complete. Movable. Destroying an incomplete request leaks its staging to the communicator (MPI may still write
/// there) instead of freeing it.
class Request {
 public:
  /// State machine of one operation. Errors that it throws need not name the operation: Request adds the label.
  class Operation {
   public:
    virtual ~Operation() = default;
    /// Advances as far as possible without waiting; true when complete.
    virtual bool advance() = 0;
    /// advance() has returned true, or would: does not advance.
    [[nodiscard]] virtual bool complete() const = 0;
    /// Grows with every message that completes: wait() becomes eager again when it has grown.
    [[nodiscard]] virtual std::uint64_t progress() const { return 0; }
    /// Which ranks are still missing, for the message of a missed deadline; may be empty.
    [[nodiscard]] virtual std::string missing() const { return {}; }
    /// From issue to completion, once complete.
    [[nodiscard]] virtual double seconds() const = 0;
    /// The request is destroyed before it is complete: keeps `self` alive as long as messages may be under way.
    virtual void abandon(std::shared_ptr<Operation> self) noexcept = 0;
  };

  Request() = default;  ///< complete, as one that was moved from
  /// By a backend: `operation` is issued, `rank` and `sequence` are for messages; `deadline` is that of each wait().
  Request(std::shared_ptr<Operation> operation, OperationLabel label, int rank, std::uint64_t sequence,
          std::chrono::milliseconds deadline);
  Request(Request&& other) noexcept;  ///< the other is complete
  /// What this one had is treated as by the destructor before.
  Request& operator=(Request&& other) noexcept;
  ~Request();

  /// Advances; true when complete. Throws CommunicationError where MPI or a peer fails: names rank, operation, unit,
  /// phase and sequence number.
  bool test();

  /// The operation is complete; does not advance it. An error that came in the background waits for test().
  [[nodiscard]] bool complete() const;
  /// From issue to completion, once complete; 0 before.
  [[nodiscard]] double seconds() const { return seconds_; }

  /// Tests, then yields, then sleeps for doubling times up to 1 ms, until complete. Throws CommunicationError as test
  /// does, and once the deadline has passed since the call: with seconds waited, and the ranks that are missing where
  /// that is known. The operation stays incomplete then.
  void wait();

 private:
  void release() noexcept;
  [[nodiscard]] std::string describe() const;

  std::shared_ptr<Operation> operation_;  // null when complete
  OperationLabel label_;
  int rank_ = 0;
  std::uint64_t sequence_ = 0;
  std::chrono::milliseconds deadline_{};
  double seconds_ = 0;
};

}  // namespace matrixfsdp

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

/// A started non-blocking operation: it owns its staging buffers and advances only inside test() and wait(). The
/// tensors that it reads or writes must live until it is complete. Movable. Destroying an incomplete request leaks its
/// staging to the communicator (MPI may still write there) instead of freeing it.
class Request {
 public:
  /// State machine of one operation.
  class Operation {
   public:
    virtual ~Operation() = default;
    /// Advances as far as possible without waiting; true when complete.
    virtual bool advance() = 0;
  };

  Request() = default;  ///< complete
  Request(std::shared_ptr<Operation> operation, OperationLabel label, int rank, std::uint64_t sequence,
          std::chrono::milliseconds deadline);
  Request(Request&& other) noexcept;
  Request& operator=(Request&& other) noexcept;
  ~Request();

  /// Advances; true when complete.
  bool test();

  /// Tests, then yields, then sleeps for doubling times up to 1 ms, until complete. Throws CommunicationError once the
  /// deadline has passed: names rank, operation, unit, phase, sequence number and seconds waited.
  void wait();

 private:
  std::shared_ptr<Operation> operation_;  // null when complete
  OperationLabel label_;
  int rank_ = 0;
  std::uint64_t sequence_ = 0;
  std::chrono::milliseconds deadline_{};
};

}  // namespace matrixfsdp

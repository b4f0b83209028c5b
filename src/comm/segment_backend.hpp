#pragma once

#include <matrixfsdp/comm/segments.hpp>

namespace matrixfsdp {

/// Carries gather and reduce (comm/segments.hpp) of a communicator instead of MPI. Preconditions have been checked;
/// kernels that write what is sent may still run, which is the backend's to wait for, and what travels as bfloat16 is
/// the backend's to round.
class SegmentBackend {
 public:
  SegmentBackend() = default;
  SegmentBackend(const SegmentBackend&) = delete;
  SegmentBackend& operator=(const SegmentBackend&) = delete;
  virtual ~SegmentBackend() = default;

  /// False: it has ended in order, and MPI does the work again.
  [[nodiscard]] virtual bool attached() const = 0;
  /// Collective: ends it. Throws CommunicationError when the deadline passes.
  virtual void detach() = 0;
  /// Ends it on this rank alone. Waits for nobody.
  virtual void abort() noexcept = 0;

  virtual Request gather(Purpose purpose, const Unshard& unshard, const float* shard, float* buffer,
                         const OperationLabel& label) = 0;
  virtual Request reduce(const Reduce& prepared, Pass pass, float* buffer, float* sums, float* shard,
                         const OperationLabel& label) = 0;
};

}  // namespace matrixfsdp

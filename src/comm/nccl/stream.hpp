#pragma once

#include <cuda_runtime_api.h>

namespace matrixfsdp::nccl {

/// A stream of its own: what runs on the default stream does not wait for it, nor it for that.
class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();  ///< what has been enqueued still runs

  [[nodiscard]] cudaStream_t get() const { return stream_; }
  /// Everything that has been enqueued is complete.
  [[nodiscard]] bool idle() const;

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event();

  /// Marks what has been enqueued on `stream` up to now.
  void record(cudaStream_t stream);
  /// What is enqueued on `stream` from now on waits for what is marked.
  void hold_back(cudaStream_t stream) const;
  /// What is marked is complete. Throws CommunicationError where the device has failed.
  [[nodiscard]] bool reached() const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace matrixfsdp::nccl

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "linalg/cuda/check.hpp"

namespace matrixfsdp::linalg::cuda {

/// cuBLAS and cuSOLVER as one thread uses them: handles on the stream of Kokkos' default instance, so that products and
/// kernels run in the order in which they were started, and scratch. The same calls give the same bits: one stream for
/// each handle, a workspace of its own, no atomics, sums of narrow results in float32 (cuBLAS documentation, "Results
/// Reproducibility"; cuSOLVER's default is its deterministic mode).
class Libraries {
 public:
  Libraries();
  Libraries(const Libraries&) = delete;
  Libraries& operator=(const Libraries&) = delete;

  /// Those of the calling thread, made when it asks for the first time; Kokkos must be running. They end with Kokkos
  /// (on the thread that ends it) or with their thread, whichever comes first: another thread that computes must end
  /// before.
  static Libraries& of_this_thread();

  [[nodiscard]] cublasHandle_t blas() const { return blas_.get(); }
  /// Made when it is asked for the first time.
  [[nodiscard]] cusolverDnHandle_t solver();

  void set_math(Math math);

  /// What has been started, with its status: throws DeviceError unless it is success.
  template <class Status>
  void started(Status status, const Call& call) {
    last_ = call;
    check(status, call);
  }
  /// Waits for all that has been started. Throws DeviceError, which names what was started last.
  void finish();

  /// `given`, or scratch of this where that has too few elements. T is float or double.
  template <class T>
  T* scratch(const Tensor<T>& given, std::int64_t count) {
    if (static_cast<std::int64_t>(given.extent(0)) >= count) return given.data();
    const auto bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (static_cast<std::int64_t>(scratch_.extent(0)) < bytes) grow_scratch(bytes);
    return reinterpret_cast<T*>(scratch_.data());
  }
  /// Where cuSOLVER says how it ended.
  [[nodiscard]] int* info() const { return info_.data(); }

 private:
  struct Destroy {
    void operator()(cublasContext* handle) const { cublasDestroy(handle); }
    void operator()(cusolverDnContext* handle) const { cusolverDnDestroy(handle); }
  };

  void grow_scratch(std::int64_t bytes);

  cudaStream_t stream_;
  Tensor<std::uint8_t> workspace_;  // of cuBLAS
  Tensor<std::uint8_t> scratch_;
  Tensor<int> info_;
  std::unique_ptr<cublasContext, Destroy> blas_;
  std::unique_ptr<cusolverDnContext, Destroy> solver_;
  Call last_{"no call"};
};

/// Why the device of this thread multiplies no matrices of `type`, which tensor cores of compute capability 8.0 and
/// more do; empty where it does. Needs no Kokkos.
std::string tensor_core_obstacle(std::string_view type);

}  // namespace matrixfsdp::linalg::cuda

#include "linalg/cuda/libraries.hpp"

#include <utility>

#include <fmt/format.h>

namespace matrixfsdp::linalg::cuda {
namespace {

/// What NVIDIA recommends for Hopper, and more than older devices need (cuBLAS documentation, cublasSetWorkspace).
constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

/// Kokkos' default instance works on it.
cudaStream_t kokkos_stream() {
#if defined(KOKKOS_ENABLE_CUDA)
  return ExecutionSpace().cuda_stream();
#else
  return nullptr;  // of the host double: it has this one
#endif
}

/// A product is a free function, as a kernel is: like Kokkos' own instance, its libraries are found by thread.
std::unique_ptr<Libraries>& libraries() {
  thread_local std::unique_ptr<Libraries> mine;
  return mine;
}

/// Terms are summed in float32 also where the result is bfloat16.
cublasMath_t math_mode(cublasMath_t mode) {
  return static_cast<cublasMath_t>(static_cast<unsigned>(mode) |
                                   static_cast<unsigned>(CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
}

}  // namespace

Libraries::Libraries()
    : stream_(kokkos_stream()),
      workspace_(make_tensor<std::uint8_t>("matrixfsdp::linalg::cublas_workspace", workspace_bytes)),
      info_(make_tensor<int>("matrixfsdp::linalg::info", 1)) {
  cublasHandle_t blas = nullptr;
  check(cublasCreate(&blas), {"cublasCreate"});
  blas_.reset(blas);
  check(cublasSetStream(blas, stream_), {"cublasSetStream"});
  // After the stream: setting that gives the handle another workspace.
  check(cublasSetWorkspace(blas, workspace_.data(), static_cast<std::size_t>(workspace_bytes)), {"cublasSetWorkspace"});
  check(cublasSetAtomicsMode(blas, CUBLAS_ATOMICS_NOT_ALLOWED), {"cublasSetAtomicsMode"});
  set_math(Math::float32);
}

Libraries& Libraries::of_this_thread() {
  std::unique_ptr<Libraries>& mine = libraries();
  if (!mine) {
    mine = std::make_unique<Libraries>();
    // Handles and tensors must go before the device does. A hook runs on the thread that ends Kokkos, and is not told
    // of another one's.
    Kokkos::push_finalize_hook([] { libraries().reset(); });
  }
  return *mine;
}

cusolverDnHandle_t Libraries::solver() {
  if (!solver_) {
    cusolverDnHandle_t solver = nullptr;
    check(cusolverDnCreate(&solver), {"cusolverDnCreate"});
    std::unique_ptr<cusolverDnContext, Destroy> made(solver);
    check(cusolverDnSetStream(solver, stream_), {"cusolverDnSetStream"});
    solver_ = std::move(made);
  }
  return solver_.get();
}

void Libraries::set_math(Math math) {
  const cublasMath_t mode = math == Math::tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH;
  check(cublasSetMathMode(blas(), math_mode(mode)), {"cublasSetMathMode"});
}

void Libraries::finish() {
  const cudaError_t code = cudaStreamSynchronize(stream_);
  if (code != cudaSuccess) check(code, last_);
}

void Libraries::grow_scratch(std::int64_t bytes) {
  scratch_ = {};  // the old one is not needed
  scratch_ = make_tensor<std::uint8_t>("matrixfsdp::linalg::scratch", bytes);
}

std::string tensor_core_obstacle(std::string_view type) {
  int device = 0;
  int major = 0;
  int minor = 0;
  cudaError_t code = cudaGetDevice(&device);
  if (code == cudaSuccess) code = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (code == cudaSuccess) code = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  if (code != cudaSuccess)
    return fmt::format("no device is visible ({}), expected one that multiplies {}", cudaGetErrorString(code), type);
  if (major >= 8) return "";
  return fmt::format("a device of compute capability {:.1f} multiplies no {}, expected 8.0 or more",
                     major + minor / 10.0, type);
}

}  // namespace matrixfsdp::linalg::cuda

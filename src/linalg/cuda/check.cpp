#include "linalg/cuda/check.hpp"

#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::linalg::cuda {
namespace {

[[noreturn]] void fail(const Call& call, int code, std::string_view text) {
  throw DeviceError(fmt::format("{} failed with code {}: {}", to_string(call), code, text));
}

/// cuSOLVER has no texts of its own.
std::string_view text_of(cusolverStatus_t code) {
  switch (code) {
    case CUSOLVER_STATUS_NOT_INITIALIZED:
      return "CUSOLVER_STATUS_NOT_INITIALIZED";
    case CUSOLVER_STATUS_ALLOC_FAILED:
      return "CUSOLVER_STATUS_ALLOC_FAILED";
    case CUSOLVER_STATUS_INVALID_VALUE:
      return "CUSOLVER_STATUS_INVALID_VALUE";
    case CUSOLVER_STATUS_ARCH_MISMATCH:
      return "CUSOLVER_STATUS_ARCH_MISMATCH";
    case CUSOLVER_STATUS_EXECUTION_FAILED:
      return "CUSOLVER_STATUS_EXECUTION_FAILED";
    case CUSOLVER_STATUS_INTERNAL_ERROR:
      return "CUSOLVER_STATUS_INTERNAL_ERROR";
    case CUSOLVER_STATUS_NOT_SUPPORTED:
      return "CUSOLVER_STATUS_NOT_SUPPORTED";
    default:
      return "see cusolverStatus_t in cusolver_common.h";
  }
}

}  // namespace

std::string to_string(const Call& call) {
  std::string text = call.name;
  if (call.rows >= 0) text += fmt::format(" of {}x{}", call.rows, call.cols);
  if (call.inner >= 0) text += fmt::format(" with {} terms", call.inner);
  return text;
}

void check(cublasStatus_t code, const Call& call) {
  if (code != CUBLAS_STATUS_SUCCESS) fail(call, static_cast<int>(code), cublasGetStatusString(code));
}

void check(cusolverStatus_t code, const Call& call) {
  if (code != CUSOLVER_STATUS_SUCCESS) fail(call, static_cast<int>(code), text_of(code));
}

void check(cudaError_t code, const Call& call) {
  if (code != cudaSuccess) fail(call, static_cast<int>(code), cudaGetErrorString(code));
}

}  // namespace matrixfsdp::linalg::cuda

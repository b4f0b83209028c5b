#include <matrixfsdp/linalg/bfloat16.hpp>

#include "linalg/backend.hpp"
#include "linalg/batch.hpp"
#include "linalg/column_batch.hpp"
#include "linalg/cuda/libraries.hpp"
#include "linalg/cuda/products.hpp"

namespace matrixfsdp::linalg {
namespace {

template <class R>
void multiply(Op op_a, Op op_b, MatrixView<const bfloat16> a, MatrixView<const bfloat16> b, float beta,
              MatrixView<R> c) {
  const auto p = detail::column_gemm<bfloat16, R, float>("bfloat16 gemm", op_a, op_b, 1.0F, a, b, beta, c);
  if (p.empty()) return;
  if (p.k == 0) {
    cuda::start_scale<false>(p.m, p.n, p.beta, p.c, p.ldc);
  } else {
    constexpr cudaDataType_t type = sizeof(R) == sizeof(bfloat16) ? CUDA_R_16BF : CUDA_R_32F;
    cuda::Libraries& libraries = cuda::Libraries::of_this_thread();
    libraries.started(cublasGemmEx(libraries.blas(), cuda::operation(p.transpose_a), cuda::operation(p.transpose_b),
                                   p.m, p.n, p.k, &p.alpha, p.a, CUDA_R_16BF, p.lda, p.b, CUDA_R_16BF, p.ldb, &p.beta,
                                   p.c, type, p.ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                      {"cublasGemmEx", p.n, p.m, p.k});
  }
  detail::finish();
}

}  // namespace

namespace detail {

// Compiled by nvcc and run against the host double of cuBLAS; not yet on a device.
template <class C>
void batched_gemm(Bfloat16Products& /*products*/, Op op_a, Op op_b, const MatrixBatch<const bfloat16>& a,
                  const MatrixBatch<const bfloat16>& b, const MatrixBatch<C>& c) {
  const auto batch = column_gemm_batch<bfloat16, C, float>("bfloat16 batched_gemm", op_a, op_b, a, b, c);
  if (batch.count == 0) return;
  const auto& p = batch.first;
  constexpr cudaDataType_t type = sizeof(C) == sizeof(bfloat16) ? CUDA_R_16BF : CUDA_R_32F;
  cuda::Libraries& libraries = cuda::Libraries::of_this_thread();
  libraries.started(
      cublasGemmStridedBatchedEx(libraries.blas(), cuda::operation(p.transpose_a), cuda::operation(p.transpose_b), p.m,
                                 p.n, p.k, &p.alpha, p.a, CUDA_R_16BF, p.lda, batch.stride_a, p.b, CUDA_R_16BF, p.ldb,
                                 batch.stride_b, &p.beta, p.c, type, p.ldc, batch.stride_c, batch.count,
                                 CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
      {"cublasGemmStridedBatchedEx", p.n, p.m, p.k});
  finish();
}

template void batched_gemm<float>(Bfloat16Products&, Op, Op, const MatrixBatch<const bfloat16>&,
                                  const MatrixBatch<const bfloat16>&, const MatrixBatch<float>&);
template void batched_gemm<bfloat16>(Bfloat16Products&, Op, Op, const MatrixBatch<const bfloat16>&,
                                     const MatrixBatch<const bfloat16>&, const MatrixBatch<bfloat16>&);

}  // namespace detail

std::string bfloat16_obstacle() {
  return cuda::tensor_core_obstacle("bfloat16");
}

std::string onednn_description() {
  return "oneDNN: not built in";
}

/// cuBLAS keeps nothing for a product.
struct Bfloat16Products::Implementation {};

Bfloat16Products::Bfloat16Products() {
  require_bfloat16("products of bfloat16");
}
Bfloat16Products::~Bfloat16Products() = default;
Bfloat16Products::Bfloat16Products(Bfloat16Products&&) noexcept = default;
Bfloat16Products& Bfloat16Products::operator=(Bfloat16Products&&) noexcept = default;

void Bfloat16Products::gemm(Op op_a, Op op_b, MatrixView<const bfloat16> a, MatrixView<const bfloat16> b, bool add,
                            MatrixView<float> c) {
  multiply(op_a, op_b, a, b, add ? 1.0F : 0.0F, c);
}

void Bfloat16Products::gemm(Op op_a, Op op_b, MatrixView<const bfloat16> a, MatrixView<const bfloat16> b,
                            MatrixView<bfloat16> c) {
  multiply(op_a, op_b, a, b, 0.0F, c);
}

std::int64_t Bfloat16Products::bytes() const {
  return 0;
}

}  // namespace matrixfsdp::linalg

#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/linalg/blas.hpp>

#include "linalg/backend.hpp"
#include "linalg/cuda/libraries.hpp"
#include "linalg/cuda/products.hpp"

namespace matrixfsdp::linalg {
namespace detail {

using cuda::Libraries;
using cuda::operation;

template <class T>
void start(const ColumnGemm<T>& p) {
  if (p.k == 0) {
    cuda::start_scale<false>(p.m, p.n, p.beta, p.c, p.ldc);
    return;
  }
  Libraries& libraries = Libraries::of_this_thread();
  const cublasOperation_t op_a = operation(p.transpose_a);
  const cublasOperation_t op_b = operation(p.transpose_b);
  // Its result has our columns as rows.
  if constexpr (std::is_same_v<T, float>) {
    libraries.started(
        cublasSgemm(libraries.blas(), op_a, op_b, p.m, p.n, p.k, &p.alpha, p.a, p.lda, p.b, p.ldb, &p.beta, p.c, p.ldc),
        {"cublasSgemm", p.n, p.m, p.k});
  } else {
    libraries.started(
        cublasDgemm(libraries.blas(), op_a, op_b, p.m, p.n, p.k, &p.alpha, p.a, p.lda, p.b, p.ldb, &p.beta, p.c, p.ldc),
        {"cublasDgemm", p.n, p.m, p.k});
  }
}

template <class T>
void start(const ColumnSyrk<T>& p) {
  if (p.k == 0) {
    cuda::start_scale<true>(p.n, p.n, p.beta, p.c, p.ldc);
    return;
  }
  Libraries& libraries = Libraries::of_this_thread();
  const cublasOperation_t op = operation(p.transpose);
  if constexpr (std::is_same_v<T, float>) {
    libraries.started(
        cublasSsyrk(libraries.blas(), CUBLAS_FILL_MODE_UPPER, op, p.n, p.k, &p.alpha, p.a, p.lda, &p.beta, p.c, p.ldc),
        {"cublasSsyrk", p.n, p.n, p.k});
  } else {
    libraries.started(
        cublasDsyrk(libraries.blas(), CUBLAS_FILL_MODE_UPPER, op, p.n, p.k, &p.alpha, p.a, p.lda, &p.beta, p.c, p.ldc),
        {"cublasDsyrk", p.n, p.n, p.k});
  }
}

// Compiled by nvcc and run against the host double of cuBLAS; not yet on a device.
template <class T>
void start(const ColumnGemmBatch<T>& p) {
  const ColumnGemm<T>& one = p.first;
  Libraries& libraries = Libraries::of_this_thread();
  const cublasOperation_t op_a = operation(one.transpose_a);
  const cublasOperation_t op_b = operation(one.transpose_b);
  if constexpr (std::is_same_v<T, float>) {
    libraries.started(cublasSgemmStridedBatched(libraries.blas(), op_a, op_b, one.m, one.n, one.k, &one.alpha, one.a,
                                                one.lda, p.stride_a, one.b, one.ldb, p.stride_b, &one.beta, one.c,
                                                one.ldc, p.stride_c, p.count),
                      {"cublasSgemmStridedBatched", one.n, one.m, one.k});
  } else {
    libraries.started(cublasDgemmStridedBatched(libraries.blas(), op_a, op_b, one.m, one.n, one.k, &one.alpha, one.a,
                                                one.lda, p.stride_a, one.b, one.ldb, p.stride_b, &one.beta, one.c,
                                                one.ldc, p.stride_c, p.count),
                      {"cublasDgemmStridedBatched", one.n, one.m, one.k});
  }
}

template void start(const ColumnGemm<float>&);
template void start(const ColumnGemm<double>&);
template void start(const ColumnSyrk<float>&);
template void start(const ColumnSyrk<double>&);
template void start(const ColumnGemmBatch<float>&);
template void start(const ColumnGemmBatch<double>&);

void finish() {
  Libraries::of_this_thread().finish();
}

void use_threads(int /*threads*/) {}  // nothing is computed by a BLAS of the host

void use_math(Math math) {
  Libraries::of_this_thread().set_math(math);
}

}  // namespace detail

bool batches_products() {
  return true;
}

std::string tf32_obstacle() {
  return cuda::tensor_core_obstacle("tf32");
}

std::string blas_description() {
  const auto blas = [](libraryPropertyType part) {
    int value = 0;
    cuda::check(cublasGetProperty(part, &value), {"cublasGetProperty"});
    return value;
  };
  const auto solver = [](libraryPropertyType part) {
    int value = 0;
    cuda::check(cusolverGetProperty(part, &value), {"cusolverGetProperty"});
    return value;
  };
  return fmt::format("cuBLAS {}.{}.{}, cuSOLVER {}.{}.{}", blas(MAJOR_VERSION), blas(MINOR_VERSION), blas(PATCH_LEVEL),
                     solver(MAJOR_VERSION), solver(MINOR_VERSION), solver(PATCH_LEVEL));
}

}  // namespace matrixfsdp::linalg

#include <cmath>
#include <cstring>
#include <utility>

#include <cublas_v2.h>

#include <matrixfsdp/core/bfloat16.hpp>

#include "support/cublas_double/device.hpp"

/// cuBLAS: "Using the cuBLAS API" and the sections of the routines (docs.nvidia.com/cuda/cublas).
struct cublasContext {
  bool has_stream = false;
  bool has_workspace = false;
  bool atomics = true;  ///< unknown until it is set
  unsigned math = 0;
};

namespace {

using matrixfsdp::bfloat16;
using matrixfsdp::cublas_double::check_matrix;
using matrixfsdp::cublas_double::control;
using matrixfsdp::cublas_double::fails;
using matrixfsdp::cublas_double::put_off;
using matrixfsdp::cublas_double::refuse;

/// "cublasSetStream: ... unconditionally resets the cuBLAS library workspace": a workspace that was set before is gone.
/// Reproducible bits want one of its own, and no atomics.
bool is_ready(const char* call, cublasHandle_t handle) {
  if (handle == nullptr) return refuse(call, "no handle");
  if (!handle->has_stream) return refuse(call, "the handle has no stream");
  if (!handle->has_workspace) return refuse(call, "the handle has no workspace of its own");
  if (handle->atomics) return refuse(call, "atomics are allowed");
  if ((handle->math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) == 0)
    return refuse(call, "sums may be narrower than float32");
  return true;
}

/// 10 of the 23 bits of mantissa, to nearest.
float to_tf32(float value) {
  unsigned bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  bits = (bits + 0x1000U) & ~0x1fffU;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

template <class T>
double entry(T value, bool tf32) {
  if constexpr (std::is_same_v<T, bfloat16>)
    return static_cast<double>(to_float(value));
  else if constexpr (std::is_same_v<T, float>)
    return static_cast<double>(tf32 ? to_tf32(value) : value);
  else
    return value;
}

template <class R>
void store(double value, R& result) {
  if constexpr (std::is_same_v<R, bfloat16>)
    result = matrixfsdp::to_bfloat16(static_cast<float>(value));
  else
    result = static_cast<R>(value);
}

template <class E, class R>
struct Product {
  bool transpose_a;
  bool transpose_b;
  int m;
  int n;
  int k;
  double alpha;
  const E* a;
  int lda;
  const E* b;
  int ldb;
  double beta;
  R* c;
  int ldc;
  bool tf32;
  bool triangle;  ///< the upper one only

  void operator()() const {
    for (int j = 0; j < n; ++j) {
      for (int i = 0; i < (triangle ? j + 1 : m); ++i) {
        double sum = 0;
        for (int l = 0; l < k; ++l)
          sum += entry(transpose_a ? a[l + i * lda] : a[i + l * lda], tf32) *
                 entry(transpose_b ? b[j + l * ldb] : b[l + j * ldb], tf32);
        R& result = c[i + j * ldc];
        store(alpha * sum + (beta == 0 ? 0.0 : beta * entry(result, false)), result);
      }
    }
  }
};

template <class E, class R>
bool is_multiplied(const char* call, const Product<E, R>& p) {
  const bool good = check_matrix(call, "A", p.a, p.transpose_a ? p.k : p.m, p.lda) &&
                    check_matrix(call, "B", p.b, p.transpose_b ? p.n : p.k, p.ldb) &&
                    check_matrix(call, "C", p.c, p.m, p.ldc);
  if (good && (p.m <= 0 || p.n <= 0 || p.k <= 0)) return refuse(call, "an extent is not positive");
  return good;
}

/// What the routines of products share. An empty one is never sent, and one without terms neither: what it does is not
/// documented.
template <class E, class R>
cublasStatus_t start(const char* call, cublasHandle_t handle, Product<E, R> p) {
  if (fails(call)) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!is_ready(call, handle) || !is_multiplied(call, p)) return CUBLAS_STATUS_INVALID_VALUE;
  p.tf32 = (handle->math & 7U) == CUBLAS_TF32_TENSOR_OP_MATH;
  control().calls += call;
  control().calls += ' ';
  put_off(p);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t gemm(const char* call, cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                    int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb, const T* beta, T* c,
                    int ldc) {
  return start<T, T>(call, handle,
                     {transa == CUBLAS_OP_T, transb == CUBLAS_OP_T, m, n, k, static_cast<double>(*alpha), a, lda, b,
                      ldb, static_cast<double>(*beta), c, ldc, false, false});
}

using Bytes = std::pair<const void*, const void*>;

/// What `count` matrices occupy, each m x n with a leading dimension: the first byte, and the one after the last.
template <class T>
Bytes occupied(const T* first, int m, int n, int leading, long long stride, int count) {
  return {first, first + stride * (count - 1) + static_cast<long long>(leading) * (n - 1) + m};
}

/// "cublas<t>gemmStridedBatched": results must not overlap, neither each other nor an operand; operands may.
template <class E, class R>
cublasStatus_t gemm_batch(const char* call, cublasHandle_t handle, Product<E, R> p, long long stride_a,
                          long long stride_b, long long stride_c, int count) {
  if (fails(call)) return CUBLAS_STATUS_EXECUTION_FAILED;
  bool good = is_ready(call, handle) && is_multiplied(call, p);
  if (good && count <= 0) good = refuse(call, "the batch is empty");
  if (good && (stride_a < 0 || stride_b < 0)) good = refuse(call, "a stride is negative");
  if (good && count > 1 && stride_c < static_cast<long long>(p.ldc) * (p.n - 1) + p.m)
    good = refuse(call, "results of the batch overlap");
  if (!good) return CUBLAS_STATUS_INVALID_VALUE;
  const Bytes c = occupied(p.c, p.m, p.n, p.ldc, stride_c, count);
  for (const Bytes& operand : {p.transpose_a ? occupied(p.a, p.k, p.m, p.lda, stride_a, count)
                                             : occupied(p.a, p.m, p.k, p.lda, stride_a, count),
                               p.transpose_b ? occupied(p.b, p.n, p.k, p.ldb, stride_b, count)
                                             : occupied(p.b, p.k, p.n, p.ldb, stride_b, count)}) {
    if (operand.first < c.second && c.first < operand.second) {
      refuse(call, "a result overlaps an operand");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
  }
  p.tf32 = (handle->math & 7U) == CUBLAS_TF32_TENSOR_OP_MATH;
  control().calls += call;
  control().calls += ' ';
  put_off([=] {
    Product<E, R> one = p;
    for (int i = 0; i < count; ++i) {
      one();
      one.a += stride_a;
      one.b += stride_b;
      one.c += stride_c;
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

template <class T>
cublasStatus_t syrk(const char* call, cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, int n,
                    int k, const T* alpha, const T* a, int lda, const T* beta, T* c, int ldc) {
  if (uplo != CUBLAS_FILL_MODE_UPPER) {
    refuse(call, "only the upper triangle is modelled");
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  const bool transpose = trans == CUBLAS_OP_T;
  return start<T, T>(call, handle,
                     {transpose, !transpose, n, n, k, static_cast<double>(*alpha), a, lda, a, lda,
                      static_cast<double>(*beta), c, ldc, false, true});
}

bool is_modelled(const char* call, cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  if (compute == CUBLAS_COMPUTE_32F && a == CUDA_R_16BF && b == CUDA_R_16BF && (c == CUDA_R_16BF || c == CUDA_R_32F))
    return true;
  return refuse(call, "only bfloat16 that is summed in float32 is modelled");
}

/// "Scale type CUDA_R_32F" of CUBLAS_COMPUTE_32F: alpha and beta are float, whatever the matrices are.
template <class R>
Product<bfloat16, R> rounded_product(cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                     const void* alpha, const void* a, int lda, const void* b, int ldb,
                                     const void* beta, void* c, int ldc) {
  return {transa == CUBLAS_OP_T,
          transb == CUBLAS_OP_T,
          m,
          n,
          k,
          *static_cast<const float*>(alpha),
          static_cast<const bfloat16*>(a),
          lda,
          static_cast<const bfloat16*>(b),
          ldb,
          *static_cast<const float*>(beta),
          static_cast<R*>(c),
          ldc,
          false,
          false};
}

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (fails("cublasCreate")) return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  ++control().open_handles;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  delete handle;
  --control().open_handles;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t /*stream*/) {
  if (fails("cublasSetStream")) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->has_stream = true;
  handle->has_workspace = false;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  handle->has_workspace = workspace != nullptr && bytes > 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  handle->atomics = mode != CUBLAS_ATOMICS_NOT_ALLOWED;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math = static_cast<unsigned>(mode);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUBLAS_VER_MAJOR : 0;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t status) {
  return status == CUBLAS_STATUS_EXECUTION_FAILED ? "CUBLAS_STATUS_EXECUTION_FAILED" : "another status";
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const float* alpha, const float* a, int lda, const float* b, int ldb,
                              const float* beta, float* c, int ldc) {
  return gemm("cublasSgemm", handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

cublasStatus_t cublasDgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                              int k, const double* alpha, const double* a, int lda, const double* b, int ldb,
                              const double* beta, double* c, int ldc) {
  return gemm("cublasDgemm", handle, transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                         int m, int n, int k, const float* alpha, const float* a, int lda,
                                         long long stride_a, const float* b, int ldb, long long stride_b,
                                         const float* beta, float* c, int ldc, long long stride_c, int count) {
  return gemm_batch<float, float>("cublasSgemmStridedBatched", handle,
                                  {transa == CUBLAS_OP_T, transb == CUBLAS_OP_T, m, n, k, static_cast<double>(*alpha),
                                   a, lda, b, ldb, static_cast<double>(*beta), c, ldc, false, false},
                                  stride_a, stride_b, stride_c, count);
}

cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                         int m, int n, int k, const double* alpha, const double* a, int lda,
                                         long long stride_a, const double* b, int ldb, long long stride_b,
                                         const double* beta, double* c, int ldc, long long stride_c, int count) {
  return gemm_batch<double, double>(
      "cublasDgemmStridedBatched", handle,
      {transa == CUBLAS_OP_T, transb == CUBLAS_OP_T, m, n, k, *alpha, a, lda, b, ldb, *beta, c, ldc, false, false},
      stride_a, stride_b, stride_c, count);
}

cublasStatus_t cublasSsyrk_v2(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, int n, int k,
                              const float* alpha, const float* a, int lda, const float* beta, float* c, int ldc) {
  return syrk("cublasSsyrk", handle, uplo, trans, n, k, alpha, a, lda, beta, c, ldc);
}

cublasStatus_t cublasDsyrk_v2(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t trans, int n, int k,
                              const double* alpha, const double* a, int lda, const double* beta, double* c, int ldc) {
  return syrk("cublasDsyrk", handle, uplo, trans, n, k, alpha, a, lda, beta, c, ldc);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                                          int m, int n, int k, const void* alpha, const void* a, cudaDataType a_type,
                                          int lda, long long stride_a, const void* b, cudaDataType b_type, int ldb,
                                          long long stride_b, const void* beta, void* c, cudaDataType c_type, int ldc,
                                          long long stride_c, int count, cublasComputeType_t compute,
                                          cublasGemmAlgo_t /*algorithm*/) {
  const char* const call = "cublasGemmStridedBatchedEx";
  if (!is_modelled(call, a_type, b_type, c_type, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto start_batch = [&](const auto& product) {
    return gemm_batch(call, handle, product, stride_a, stride_b, stride_c, count);
  };
  if (c_type == CUDA_R_16BF)
    return start_batch(rounded_product<bfloat16>(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
  return start_batch(rounded_product<float>(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void* alpha, const void* a, cudaDataType a_type, int lda, const void* b,
                            cudaDataType b_type, int ldb, const void* beta, void* c, cudaDataType c_type, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t /*algorithm*/) {
  const char* const call = "cublasGemmEx";
  if (!is_modelled(call, a_type, b_type, c_type, compute)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (c_type == CUDA_R_16BF)
    return start(call, handle, rounded_product<bfloat16>(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
  return start(call, handle, rounded_product<float>(transa, transb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc));
}

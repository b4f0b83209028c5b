#include <type_traits>

#include <dlfcn.h>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "linalg/fortran.hpp"

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
            const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*,
            const double*, const int*, const double*, double*, const int*);
void ssyrk_(const char*, const char*, const int*, const int*, const float*, const float*, const int*, const float*,
            float*, const int*);
void dsyrk_(const char*, const char*, const int*, const int*, const double*, const double*, const int*, const double*,
            double*, const int*);
// Present in one BLAS or another; null where it is not.
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) char* openblas_get_config();
__attribute__((weak)) char* openblas_get_corename();
__attribute__((weak)) void MKL_Set_Num_Threads(int);
__attribute__((weak)) void bli_thread_set_num_threads(std::int64_t);
}

namespace matrixfsdp::linalg {
namespace {

using detail::blas_int;
using detail::leading;
using detail::wait_for_kernels;

}  // namespace

template <class T>
void gemm(Op op_a, Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
          MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c) {
  const std::int64_t a_rows = op_a == Op::none ? a.rows : a.cols;
  const std::int64_t inner = op_a == Op::none ? a.cols : a.rows;
  const std::int64_t b_rows = op_b == Op::none ? b.rows : b.cols;
  const std::int64_t b_cols = op_b == Op::none ? b.cols : b.rows;
  if (a_rows != c.rows || b_cols != c.cols || inner != b_rows) {
    throw ContractError(fmt::format("gemm: op(A) {}x{} times op(B) {}x{} does not fit C {}x{}", a_rows, inner, b_rows,
                                    b_cols, c.rows, c.cols));
  }
  if (c.rows == 0 || c.cols == 0) return;
  wait_for_kernels();
  // C^T = op(B)^T op(A)^T
  const int m = blas_int(c.cols);
  const int n = blas_int(c.rows);
  const int k = blas_int(inner);
  const int lda = leading("gemm", "A", a);
  const int ldb = leading("gemm", "B", b);
  const int ldc = leading("gemm", "C", c);
  const char* ta = op_a == Op::none ? "N" : "T";
  const char* tb = op_b == Op::none ? "N" : "T";
  if constexpr (std::is_same_v<T, float>) {
    sgemm_(tb, ta, &m, &n, &k, &alpha, b.data, &ldb, a.data, &lda, &beta, c.data, &ldc);
  } else {
    dgemm_(tb, ta, &m, &n, &k, &alpha, b.data, &ldb, a.data, &lda, &beta, c.data, &ldc);
  }
}

template <class T>
void syrk_lower(Op op_a, T alpha, MatrixView<const std::type_identity_t<T>> a, T beta,
                MatrixView<std::type_identity_t<T>> c) {
  const std::int64_t rows = op_a == Op::none ? a.rows : a.cols;
  const std::int64_t inner = op_a == Op::none ? a.cols : a.rows;
  if (rows != c.rows || c.rows != c.cols) {
    throw ContractError(fmt::format("syrk: op(A) {}x{} does not fit C {}x{}", rows, inner, c.rows, c.cols));
  }
  if (rows == 0) return;
  wait_for_kernels();
  const int n = blas_int(rows);
  const int k = blas_int(inner);
  const int lda = leading("syrk", "A", a);
  const int ldc = leading("syrk", "C", c);
  // Column-major sees A^T, so A A^T is its "T" form; its upper triangle is our lower one.
  const char* trans = op_a == Op::none ? "T" : "N";
  if constexpr (std::is_same_v<T, float>) {
    ssyrk_("U", trans, &n, &k, &alpha, a.data, &lda, &beta, c.data, &ldc);
  } else {
    dsyrk_("U", trans, &n, &k, &alpha, a.data, &lda, &beta, c.data, &ldc);
  }
}

template <class T>
void syrk(Op op_a, T alpha, MatrixView<const std::type_identity_t<T>> a, T beta,
          MatrixView<std::type_identity_t<T>> c) {
  syrk_lower<T>(op_a, alpha, a, beta, c);
  mirror<T>(c);
}

template void gemm<float>(Op, Op, float, MatrixView<const float>, MatrixView<const float>, float, MatrixView<float>);
template void gemm<double>(Op, Op, double, MatrixView<const double>, MatrixView<const double>, double,
                           MatrixView<double>);
template void syrk_lower<float>(Op, float, MatrixView<const float>, float, MatrixView<float>);
template void syrk_lower<double>(Op, double, MatrixView<const double>, double, MatrixView<double>);
template void syrk<float>(Op, float, MatrixView<const float>, float, MatrixView<float>);
template void syrk<double>(Op, double, MatrixView<const double>, double, MatrixView<double>);

void set_threads(int threads) {
  if (threads < 1) throw ContractError(fmt::format("BLAS threads {}: expected at least 1", threads));
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
  if (MKL_Set_Num_Threads != nullptr) MKL_Set_Num_Threads(threads);
  if (bli_thread_set_num_threads != nullptr) bli_thread_set_num_threads(threads);
  // Of oneDNN, whose OpenMP is not otherwise linked.
  using SetThreads = void (*)(int);
  const auto set_openmp = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_openmp != nullptr) set_openmp(threads);
}

std::string blas_description() {
  if (openblas_get_config != nullptr) {
    const std::string core = openblas_get_corename != nullptr ? openblas_get_corename() : "";
    return fmt::format("{} ({})", openblas_get_config(), core);
  }
  return MKL_Set_Num_Threads != nullptr ? "MKL" : "BLAS";
}

}  // namespace matrixfsdp::linalg

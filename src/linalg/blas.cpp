#include <type_traits>

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

/// The upper triangle of C <- its lower one. In square tiles: a plain transposed walk misses the cache once per
/// element.
template <class T>
void mirror(MatrixView<T> c) {
  constexpr std::int64_t tile = 32;
  const std::int64_t rows = c.rows;
  const std::int64_t tiles = (rows + tile - 1) / tile;
  Kokkos::parallel_for(
      "matrixfsdp::linalg::mirror", Kokkos::RangePolicy<ExecutionSpace>(0, tiles), KOKKOS_LAMBDA(const std::int64_t t) {
        const std::int64_t row_end = (t + 1) * tile < rows ? (t + 1) * tile : rows;
        for (std::int64_t left = 0; left <= t * tile; left += tile) {
          for (std::int64_t i = t * tile; i < row_end; ++i) {
            const std::int64_t col_end = left + tile < i ? left + tile : i;
            for (std::int64_t j = left; j < col_end; ++j)
              c(j, i) = c(i, j);
          }
        }
      });
  Kokkos::fence();
}

/// A square on the diagonal of a symmetric product is one gemm up to this extent. Smaller ones save more FLOPs, but
/// leave gemm less to do in each (measured from 64 to 256 at extents of 256 to 2048: 64 to 96 is best).
constexpr std::int64_t smallest_diagonal = 96;

template <class T>
MatrixView<T> part(MatrixView<T> of, std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
  return {of.data + row * of.stride + col, rows, cols, of.stride};
}

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
void syrk(Op op_a, T alpha, MatrixView<const std::type_identity_t<T>> a, T beta,
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
  mirror<T>(c);
}

namespace {

/// The lower triangle of C <- A B, where A holds rows and B columns of one diagonal square of the whole product.
template <class T>
void lower_triangle(MatrixView<const T> a, MatrixView<const T> b, MatrixView<T> c) {
  if (c.rows <= smallest_diagonal) {
    gemm<T>(Op::none, Op::none, T{1}, a, b, T{0}, c);
    return;
  }
  const std::int64_t upper = c.rows / 2;
  const std::int64_t lower = c.rows - upper;
  const MatrixView<const T> a_lower = part(a, upper, 0, lower, a.cols);
  const MatrixView<const T> b_left = part(b, 0, 0, b.rows, upper);
  lower_triangle<T>(part(a, 0, 0, upper, a.cols), b_left, part(c, 0, 0, upper, upper));
  gemm<T>(Op::none, Op::none, T{1}, a_lower, b_left, T{0}, part(c, upper, 0, lower, upper));
  lower_triangle<T>(a_lower, part(b, 0, upper, b.rows, lower), part(c, upper, upper, lower, lower));
}

/// Entries that lower_triangle computes.
std::int64_t triangle_entries(std::int64_t extent) {
  if (extent <= smallest_diagonal) return extent * extent;
  const std::int64_t upper = extent / 2;
  return triangle_entries(upper) + upper * (extent - upper) + triangle_entries(extent - upper);
}

}  // namespace

template <class T>
void symmetric_product(MatrixView<const std::type_identity_t<T>> a, MatrixView<const std::type_identity_t<T>> b,
                       MatrixView<std::type_identity_t<T>> c) {
  for (const MatrixView<const T>& matrix : {a, b, MatrixView<const T>(c)}) {
    if (matrix.rows == c.rows && matrix.cols == c.rows) continue;
    throw ContractError(fmt::format("symmetric_product: A {}x{}, B {}x{}, C {}x{}: expected squares of one extent",
                                    a.rows, a.cols, b.rows, b.cols, c.rows, c.cols));
  }
  if (c.rows == 0) return;
  lower_triangle<T>(a, b, c);
  mirror<T>(c);
}

std::int64_t symmetric_product_flops(std::int64_t extent) {
  return extent <= 0 ? 0 : 2 * extent * triangle_entries(extent);
}

template void gemm<float>(Op, Op, float, MatrixView<const float>, MatrixView<const float>, float, MatrixView<float>);
template void gemm<double>(Op, Op, double, MatrixView<const double>, MatrixView<const double>, double,
                           MatrixView<double>);
template void syrk<float>(Op, float, MatrixView<const float>, float, MatrixView<float>);
template void syrk<double>(Op, double, MatrixView<const double>, double, MatrixView<double>);

template void symmetric_product<float>(MatrixView<const float>, MatrixView<const float>, MatrixView<float>);
template void symmetric_product<double>(MatrixView<const double>, MatrixView<const double>, MatrixView<double>);

void set_threads(int threads) {
  if (threads < 1) throw ContractError(fmt::format("BLAS threads {}: expected at least 1", threads));
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
  if (MKL_Set_Num_Threads != nullptr) MKL_Set_Num_Threads(threads);
  if (bli_thread_set_num_threads != nullptr) bli_thread_set_num_threads(threads);
}

std::string blas_description() {
  if (openblas_get_config != nullptr) {
    const std::string core = openblas_get_corename != nullptr ? openblas_get_corename() : "";
    return fmt::format("{} ({})", openblas_get_config(), core);
  }
  return MKL_Set_Num_Threads != nullptr ? "MKL" : "BLAS";
}

}  // namespace matrixfsdp::linalg

#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "linalg/backend.hpp"
#include "linalg/column_major.hpp"

namespace matrixfsdp::linalg {

template <class T>
void gemm(Op op_a, Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
          MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c) {
  const auto product = detail::column_gemm<T>("gemm", op_a, op_b, alpha, a, b, beta, c);
  if (product.empty()) return;
  detail::start(product);
  detail::finish();
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
  // Column-major sees A^T, so A A^T is its transposed form; its upper triangle is our lower one.
  const bool transpose = op_a == Op::none;
  const int n = detail::blas_int(rows);
  const int k = detail::blas_int(inner);
  const int lda = detail::leading("syrk", "A", a);
  const int ldc = detail::leading("syrk", "C", c);
  detail::start(detail::ColumnSyrk<T>{transpose, n, k, alpha, a.data, lda, beta, c.data, ldc});
  detail::finish();
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
  detail::use_threads(threads);
}

std::string_view name_of(Math math) {
  switch (math) {
    case Math::float32:
      return "float32";
    case Math::tf32:
      return "tf32";
  }
  throw ContractError(fmt::format("math {}: expected one of the enumeration", static_cast<int>(math)));
}

void require_math(Math math, std::string_view user) {
  const std::string obstacle = math == Math::tf32 ? tf32_obstacle() : std::string();
  if (!obstacle.empty()) throw InputError(fmt::format("{}: {}", user, obstacle));
}

void set_math(Math math) {
  require_math(math, name_of(math));
  detail::use_math(math);
}

}  // namespace matrixfsdp::linalg

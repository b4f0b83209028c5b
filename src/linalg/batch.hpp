#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "linalg/fill_symmetric.hpp"

/// Matrices of one shape as one operand: what many small products need where one of them does not fill a device.
namespace matrixfsdp::linalg::detail {

/// `count` matrices of rows x cols, one after the other without gaps. Non-owning, usable in kernels.
template <class T>
struct MatrixBatch {
  T* data = nullptr;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  MatrixBatch() = default;
  KOKKOS_INLINE_FUNCTION MatrixBatch(T* pointer, std::int64_t matrices, std::int64_t row_count, std::int64_t col_count)
      : data(pointer), count(matrices), rows(row_count), cols(col_count) {}
  template <class U, class = std::enable_if_t<std::is_same_v<T, const U>>>
  KOKKOS_INLINE_FUNCTION MatrixBatch(const MatrixBatch<U>& other)  // NOLINT(google-explicit-constructor)
      : MatrixBatch(other.data, other.count, other.rows, other.cols) {}

  KOKKOS_INLINE_FUNCTION MatrixView<T> operator[](std::int64_t matrix) const {
    return {data + matrix * rows * cols, rows, cols};
  }
};

/// C_i <- op(A_i) op(B_i) for each i: one call, where the BLAS has one (batches_products), else one for each i. Throws
/// as gemm, and ContractError for counts that differ and for products without terms. 2 m n k FLOPs each. T is float or
/// double.
template <class T>
void batched_gemm(Op op_a, Op op_b, MatrixBatch<const std::type_identity_t<T>> a,
                  MatrixBatch<const std::type_identity_t<T>> b, MatrixBatch<T> c);

/// The same of bfloat16, as Bfloat16Products multiplies them: C is float, or bfloat16, each entry rounded once.
template <class C>
void batched_gemm(Bfloat16Products& products, Op op_a, Op op_b, const MatrixBatch<const bfloat16>& a,
                  const MatrixBatch<const bfloat16>& b, const MatrixBatch<C>& c);

/// fill_symmetric of each matrix: `values[matrix]` is the value of one.
template <class T, class Values>
struct SymmetricTilesOfBatch {
  using Tiles = SymmetricTiles<T, std::decay_t<decltype(std::declval<const Values&>()[0])>, true>;

  MatrixBatch<T> c;
  Values values;
  std::int64_t tiles;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t index) const {
    const std::int64_t matrix = index / tiles;
    Tiles{c[matrix], values[matrix]}(index % tiles);
  }
};

/// As fill_symmetric<true>, of all matrices at once.
template <class T, class Values>
void fill_symmetric_batch(const char* label, const MatrixBatch<T>& c, const Values& values) {
  using All = SymmetricTilesOfBatch<T, Values>;
  const std::int64_t tiles = (c.rows + All::Tiles::tile - 1) / All::Tiles::tile;
  matrixfsdp::detail::for_range(label, c.count * tiles, All{c, values, tiles});
}

/// mirror of each matrix. T is float, double or bfloat16.
template <class T>
void mirror(const MatrixBatch<T>& c);

}  // namespace matrixfsdp::linalg::detail

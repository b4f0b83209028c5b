#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/tensor/tensor.hpp>

#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn::detail {

/// Columns that one thread owns: enough for vector loops on a CPU, one (coalesced) on a GPU.
inline constexpr std::int64_t column_chunk = on_host ? 256 : 1;

template <class F>
struct ColumnFunctor {
  F f;
  std::int64_t columns;
  KOKKOS_INLINE_FUNCTION void operator()(const std::int64_t chunk) const {
    const std::int64_t begin = chunk * column_chunk;
    f(begin, begin + column_chunk < columns ? begin + column_chunk : columns);
  }
};

/// f(begin, end) for every chunk of columns. Complete at return.
template <class F>
void for_column_chunks(const std::string& label, std::int64_t columns, const F& f) {
  const std::int64_t chunks = (columns + column_chunk - 1) / column_chunk;
  const ColumnFunctor<F> functor{f, columns};
  Kokkos::parallel_for(label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, chunks), functor);
  Kokkos::fence();
}

template <class T, class F>
struct ColumnSum {
  F value;
  std::int64_t rows;
  T* out;
  KOKKOS_INLINE_FUNCTION void operator()(const std::int64_t begin, const std::int64_t end) const {
    T sum[column_chunk] = {};
    const std::int64_t width = end - begin;
    for (std::int64_t r = 0; r < rows; ++r) {
      MATRIXFSDP_NN_INDEPENDENT
      for (std::int64_t j = 0; j < width; ++j)
        sum[j] += value(r, begin + j);
    }
    for (std::int64_t j = 0; j < width; ++j)
      out[begin + j] += sum[j];
  }
};

/// out(c) += sum over the rows, in their order, of value(row, c), a KOKKOS_LAMBDA. An empty `out` is skipped.
template <class T, class F>
void add_column_sums(const std::string& label, std::int64_t rows, const TensorView<T>& out, const F& value) {
  if (out.extent(0) == 0) return;
  for_column_chunks(label, static_cast<std::int64_t>(out.extent(0)), ColumnSum<T, F>{value, rows, out.data()});
}

}  // namespace matrixfsdp::nn::detail

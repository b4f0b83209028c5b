#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

#include "tensor/for_range.hpp"

namespace matrixfsdp::linalg::detail {

/// Both triangles of C, tile by tile: a plain transposed walk would miss the cache once per element, and a tile's rows
/// are whole cache lines on both sides.
template <class T, class Value, bool both>
struct SymmetricTiles {
  static constexpr std::int64_t tile = 64 / static_cast<std::int64_t>(sizeof(T));

  MatrixView<T> c;
  Value value;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row_of_tiles) const {
    const std::int64_t row = row_of_tiles * tile;
    const bool whole = row + tile <= c.rows;
    for (std::int64_t col = 0; whole && col < row; col += tile)
      whole_tile(row, col);
    edge(row, whole ? row : 0, whole ? row + tile : c.rows);
  }

  KOKKOS_INLINE_FUNCTION void whole_tile(std::int64_t row, std::int64_t col) const {
    T values[tile * tile];
    for (std::int64_t i = 0; i < tile; ++i) {
      for (std::int64_t j = 0; j < tile; ++j) {
        values[i * tile + j] = value(row + i, col + j);
        if constexpr (both) c(row + i, col + j) = values[i * tile + j];
      }
    }
    for (std::int64_t j = 0; j < tile; ++j) {
      for (std::int64_t i = 0; i < tile; ++i)
        c(col + j, row + i) = values[i * tile + j];
    }
  }

  KOKKOS_INLINE_FUNCTION void edge(std::int64_t row_begin, std::int64_t col_begin, std::int64_t row_end) const {
    for (std::int64_t i = row_begin; i < row_end; ++i) {
      for (std::int64_t j = col_begin; j <= i; ++j) {
        const T entry = value(i, j);
        if constexpr (both) c(i, j) = entry;
        c(j, i) = entry;
      }
    }
  }
};

/// c(j, i) <- value(i, j) for each i >= j, and with `both` c(i, j) too. `value` may read c(i, j), of these i and j.
template <bool both, class T, class Value>
void fill_symmetric(const char* label, MatrixView<T> c, const Value& value) {
  using Tiles = SymmetricTiles<T, Value, both>;
  const std::int64_t tiles = (c.rows + Tiles::tile - 1) / Tiles::tile;
  matrixfsdp::detail::for_range(label, tiles, Tiles{c, value});
}

}  // namespace matrixfsdp::linalg::detail

#pragma once

#include <cstdint>

#include <matrixfsdp/tensor/tensor.hpp>

#include "tensor/for_range.hpp"

namespace matrixfsdp::detail {

template <class Body>
struct RowOfEntries {
  Body body;
  std::int64_t cols;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row) const {
    for (std::int64_t col = 0; col < cols; ++col)
      body(row, col);
  }
};

template <class Body>
struct OneEntry {
  Body body;
  std::int64_t cols;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t index) const { body(index / cols, index % cols); }
};

template <class Bodies>
struct RowOfBatch {
  Bodies bodies;
  std::int64_t rows;
  std::int64_t cols;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t index) const {
    const auto body = bodies[index / rows];
    for (std::int64_t col = 0; col < cols; ++col)
      body(index % rows, col);
  }
};

template <class Bodies>
struct OneEntryOfBatch {
  Bodies bodies;
  std::int64_t rows;
  std::int64_t cols;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t index) const {
    const std::int64_t row = index / cols;
    bodies[row / rows](row % rows, index % cols);
  }
};

/// body(row, col) for every entry of a rows x cols matrix, in no order. A CPU thread takes whole rows, so that the
/// inner loop vectorises; a GPU thread takes one entry, so that accesses coalesce. Complete when it returns.
template <class Body>
void for_each_entry(const char* label, std::int64_t rows, std::int64_t cols, const Body& body) {
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
  for_range(label, rows * cols, OneEntry<Body>{body, cols});
#else
  for_range(label, rows, RowOfEntries<Body>{body, cols});
#endif
}

/// bodies[matrix](row, col) for every entry of `count` matrices of one shape, as for_each_entry.
template <class Bodies>
void for_each_entry_of_batch(const char* label, std::int64_t count, std::int64_t rows, std::int64_t cols,
                             const Bodies& bodies) {
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
  for_range(label, count * rows * cols, OneEntryOfBatch<Bodies>{bodies, rows, cols});
#else
  for_range(label, count * rows, RowOfBatch<Bodies>{bodies, rows, cols});
#endif
}

}  // namespace matrixfsdp::detail

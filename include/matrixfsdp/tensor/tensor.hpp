#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <Kokkos_Core.hpp>

namespace matrixfsdp {

/// Where kernels run: Kokkos' default, which its build decides.
using ExecutionSpace = Kokkos::DefaultExecutionSpace;

/// Memory that kernels and MPI can both address: on GPU backends this is unified memory.
#if defined(KOKKOS_ENABLE_CUDA)
using MemorySpace = Kokkos::CudaUVMSpace;
#elif defined(KOKKOS_ENABLE_HIP)
using MemorySpace = Kokkos::HIPManagedSpace;
#else
using MemorySpace = Kokkos::HostSpace;
#endif

/// Owning, contiguous, one-dimensional.
template <class T>
using Tensor = Kokkos::View<T*, Kokkos::LayoutRight, MemorySpace>;

/// Non-owning. Valid while the owner lives.
template <class T>
using TensorView = Kokkos::View<T*, Kokkos::LayoutRight, MemorySpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Owning tensor of `count` >= 0 elements that are not initialised. Kokkos must be running (comm/session.hpp). The
/// label names it in Kokkos' messages and tools. Throws what Kokkos throws where memory is short.
template <class T>
Tensor<T> make_tensor(const std::string& label, std::int64_t count) {
  return Tensor<T>(Kokkos::view_alloc(label, Kokkos::WithoutInitializing), static_cast<std::size_t>(count));
}

/// Owning tensor of `count` zeros, as make_tensor.
template <class T>
Tensor<T> make_zeros(const std::string& label, std::int64_t count) {
  return Tensor<T>(label, static_cast<std::size_t>(count));
}

/// Elements [begin, begin + count) of a tensor or view. Unchecked: they lie inside it.
template <class View>
TensorView<typename View::value_type> slice(const View& tensor, std::int64_t begin, std::int64_t count) {
  return TensorView<typename View::value_type>(tensor.data() + begin, static_cast<std::size_t>(count));
}

/// Row-major matrix with `stride` elements from one row to the next, stride >= cols where there is more than one row.
/// Non-owning, usable in kernels: neither this nor an index is checked.
template <class T>
struct MatrixView {
  T* data = nullptr;        ///< the first element of the first row; null: no elements
  std::int64_t rows = 0;    ///< extent of the slower dimension
  std::int64_t cols = 0;    ///< extent of the faster dimension, whose elements are neighbours
  std::int64_t stride = 0;  ///< elements from one row to the next

  MatrixView() = default;  ///< no rows, no columns
  /// Of memory that the caller keeps.
  KOKKOS_INLINE_FUNCTION MatrixView(T* pointer, std::int64_t row_count, std::int64_t col_count, std::int64_t row_stride)
      : data(pointer), rows(row_count), cols(col_count), stride(row_stride) {}
  /// The same without gaps between rows.
  KOKKOS_INLINE_FUNCTION MatrixView(T* pointer, std::int64_t row_count, std::int64_t col_count)
      : MatrixView(pointer, row_count, col_count, col_count) {}

  /// A view of const elements from one of mutable elements.
  template <class U, class = std::enable_if_t<std::is_same_v<T, const U>>>
  KOKKOS_INLINE_FUNCTION MatrixView(const MatrixView<U>& other)  // NOLINT(google-explicit-constructor)
      : MatrixView(other.data, other.rows, other.cols, other.stride) {}

  /// The element itself.
  KOKKOS_INLINE_FUNCTION T& operator()(std::int64_t row, std::int64_t col) const { return data[row * stride + col]; }

  /// Rows [begin, begin + count), which lie inside the matrix.
  [[nodiscard]] KOKKOS_INLINE_FUNCTION MatrixView row_block(std::int64_t begin, std::int64_t count) const {
    return {data + begin * stride, count, cols, stride};
  }
  /// Columns [begin, begin + count), which lie inside the matrix.
  [[nodiscard]] KOKKOS_INLINE_FUNCTION MatrixView col_block(std::int64_t begin, std::int64_t count) const {
    return {data + begin, rows, count, stride};
  }
};

}  // namespace matrixfsdp

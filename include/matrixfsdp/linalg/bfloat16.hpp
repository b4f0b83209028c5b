#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// Products of bfloat16 matrices: on CPUs with instructions for them, by oneDNN, and on CUDA devices, by cuBLAS, where
/// Kokkos was built for CUDA. As those of blas.hpp: row-major, and complete when the call returns.
namespace matrixfsdp::linalg {

/// Why this build on this processor has no products of bfloat16, as one clause: built without oneDNN, or a processor
/// without AVX512_BF16 or AMX (as oneDNN sees it: its variable ONEDNN_MAX_CPU_ISA lowers that); for CUDA, a device of a
/// compute capability below 8.0. Empty where it has them.
std::string bfloat16_obstacle();

/// Throws InputError "<user>: <obstacle>" where there is one.
void require_bfloat16(std::string_view user);

/// "oneDNN 2.6.3 ...": for --version.
std::string onednn_description();

/// oneDNN makes code for each combination of extents and strides; this owns what has been made, so that the second
/// product of a shape makes nothing; cuBLAS needs nothing of it. Not for two threads at once. Terms are multiplied
/// exactly and summed in float32, in an order that depends on extents, strides and the number of threads (set_threads,
/// read when a shape comes for the first time) alone.
class Bfloat16Products {
 public:
  /// Throws InputError where there is an obstacle.
  Bfloat16Products();
  ~Bfloat16Products();
  Bfloat16Products(Bfloat16Products&&) noexcept;             ///< takes all that the other has made
  Bfloat16Products& operator=(Bfloat16Products&&) noexcept;  ///< the same

  /// C <- op(A) op(B) + C, or without the old C (NaN included) where `add` is false. Throws ContractError for extents
  /// that do not fit, and for a stride below the columns of a matrix with more than one row; DeviceError as blas.hpp
  /// does. 2 m n k FLOPs.
  void gemm(Op op_a, Op op_b, MatrixView<const bfloat16> a, MatrixView<const bfloat16> b, bool add,
            MatrixView<float> c);
  /// C <- op(A) op(B), each entry rounded once.
  void gemm(Op op_a, Op op_b, MatrixView<const bfloat16> a, MatrixView<const bfloat16> b, MatrixView<bfloat16> c);

  /// C <- A A^T, or A^T A with Op::transpose: its lower triangle and a little of its upper one, as symmetric_product
  /// cuts it. C is float or bfloat16. bfloat16_square_flops(m, k) FLOPs.
  template <class C>
  void square_lower(Op op, MatrixView<const bfloat16> a, MatrixView<C> c);

  /// Scratch of the products so far.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// Of Bfloat16Products::square_lower for an m x m result of k terms.
std::int64_t bfloat16_square_flops(std::int64_t m, std::int64_t k);

}  // namespace matrixfsdp::linalg

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::nn {

namespace detail {
class RoundedOperands;
}

/// The matrix products of a model: counts their FLOPs, and polls between them so that transfers make progress. On CPUs
/// a large product is done in pieces of a few milliseconds, cut by its shape alone, so its bits do not depend on
/// whether anybody polls.
class Products {
 public:
  /// `linear`: what multiply_linear of float computes with, float32 or bfloat16. Throws InputError for another type,
  /// and for bfloat16 where linalg::bfloat16_obstacle names an obstacle.
  explicit Products(DType linear = DType::float32);
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  /// C <- alpha op(A) op(B) + beta C, as linalg::gemm, with its errors. T is float or double.
  template <class T>
  void multiply(linalg::Op op_a, linalg::Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
                MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c);

  /// C <- op(A) op(B), or that added to C: the products of weights. In bfloat16, the entries of A and B are rounded to
  /// nearest once, and products of them are summed in float32.
  template <class T>
  void multiply_linear(linalg::Op op_a, linalg::Op op_b, MatrixView<const std::type_identity_t<T>> a,
                       MatrixView<const std::type_identity_t<T>> b, bool add, MatrixView<std::type_identity_t<T>> c);

  /// While it lives, multiply_linear rounds this operand once, here, for all products with this very view of it; the
  /// entries must not change meanwhile (unchecked). At most two at a time (ContractError). Nothing without rounding.
  class Held {
   public:
    template <class T>
    Held(Products& products, MatrixView<const T> operand);  ///< rounds `operand`
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Products& products_;
    bool rounded_;
  };

  /// Room for rounded copies, so that products of operands of no more elements allocate nothing: of A, of B, of the
  /// first and of the second held one.
  void reserve(const std::array<std::int64_t, 4>& elements);
  /// Bytes of these copies; the scratch of oneDNN is apart.
  [[nodiscard]] std::int64_t bytes() const;

  /// Called after every piece. May be empty; what it throws passes through multiply.
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  /// Calls what set_poll was given.
  void poll() const {
    if (poll_) poll_();
  }

  /// 2 m n k of every product so far; those under a Recomputation apart.
  [[nodiscard]] std::int64_t flops() const { return flops_; }
  /// The same of products under a Recomputation.
  [[nodiscard]] std::int64_t recompute_flops() const { return recompute_flops_; }

  /// While it lives, products count as recomputation.
  class Recomputation {
   public:
    /// Of `products`, which must outlive it. They may be nested.
    explicit Recomputation(Products& products) : products_(products), outer_(products.recomputing_) {
      products_.recomputing_ = true;
    }
    ~Recomputation() { products_.recomputing_ = outer_; }
    Recomputation(const Recomputation&) = delete;
    Recomputation& operator=(const Recomputation&) = delete;

   private:
    Products& products_;
    bool outer_;
  };

 private:
  std::unique_ptr<detail::RoundedOperands> rounded_;  // null: nothing is rounded
  std::function<void()> poll_;
  std::int64_t flops_ = 0;
  std::int64_t recompute_flops_ = 0;
  bool recomputing_ = false;
};

}  // namespace matrixfsdp::nn

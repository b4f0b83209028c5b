#pragma once

#include <cstdint>
#include <functional>

#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp::nn {

/// The matrix products of a model: counts their FLOPs, and polls between them so that transfers make progress. On CPUs
/// a large product is done in pieces of a few milliseconds, cut by its shape alone, so its bits do not depend on
/// whether anybody polls.
class Products {
 public:
  /// C <- alpha op(A) op(B) + beta C, as linalg::gemm, with its errors. T is float or double.
  template <class T>
  void multiply(linalg::Op op_a, linalg::Op op_b, T alpha, MatrixView<const std::type_identity_t<T>> a,
                MatrixView<const std::type_identity_t<T>> b, T beta, MatrixView<std::type_identity_t<T>> c);

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
  std::function<void()> poll_;
  std::int64_t flops_ = 0;
  std::int64_t recompute_flops_ = 0;
  bool recomputing_ = false;
};

}  // namespace matrixfsdp::nn

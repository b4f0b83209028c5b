#pragma once

#include <cstdint>
#include <utility>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "linalg/batch.hpp"
#include "linalg/fill_symmetric.hpp"

/// The iteration on what `Products` multiplies: one matrix (products.hpp), or a batch of them (batch.cpp).
namespace matrixfsdp::detail {

// The Gram form restarts once, before this step (Dao AI Lab): rounding errors of R grow by a^2 in each step.
inline constexpr int restart_step = 2;

inline int small_matrices(NewtonSchulzAlgorithm algorithm) {
  return algorithm == NewtonSchulzAlgorithm::standard ? 2 : 4;
}

inline bool restarts_before(int step, int steps, NewtonSchulzAlgorithm algorithm) {
  return algorithm == NewtonSchulzAlgorithm::gram && step == restart_step && steps > restart_step;
}

// How often X is multiplied, which decides the buffer that the iteration starts in.
inline int updates_of_x(int steps, NewtonSchulzAlgorithm algorithm) {
  if (algorithm == NewtonSchulzAlgorithm::standard) return steps;
  return restarts_before(restart_step, steps, algorithm) ? 2 : 1;
}

template <class T>
struct PolynomialEntry {
  MatrixView<const T> r;
  MatrixView<const T> z;
  T a;
  T b;
  T c;

  KOKKOS_INLINE_FUNCTION T operator()(std::int64_t i, std::int64_t j) const {
    const T sum = b * r(i, j) + c * z(i, j);
    return i == j ? sum + a : sum;
  }
};

template <class T>
struct PolynomialEntries {
  linalg::detail::MatrixBatch<const T> r;
  linalg::detail::MatrixBatch<const T> z;
  T a;
  T b;
  T c;

  KOKKOS_INLINE_FUNCTION PolynomialEntry<T> operator[](std::int64_t matrix) const {
    return {r[matrix], z[matrix], a, b, c};
  }
};

// The lower triangle of z holds that of R^2, and z becomes a I + b R + c R^2, so that the step is one product, X <- z
// X: no copy of X to add to. Both triangles in one pass.
template <class T>
void polynomial(const Quintic& step, const MatrixView<T>& r, const MatrixView<T>& z) {
  linalg::detail::fill_symmetric<true>(
      "matrixfsdp::orthogonalize::polynomial", z,
      PolynomialEntry<T>{r, z, static_cast<T>(step.a), static_cast<T>(step.b), static_cast<T>(step.c)});
}
template <class T>
void polynomial(const Quintic& step, const linalg::detail::MatrixBatch<T>& r, const linalg::detail::MatrixBatch<T>& z) {
  linalg::detail::fill_symmetric_batch(
      "matrixfsdp::orthogonalize::polynomial", z,
      PolynomialEntries<T>{r, z, static_cast<T>(step.a), static_cast<T>(step.b), static_cast<T>(step.c)});
}

// Both iterations leave their result in `x`, which changes places with `other` at each of its updates.
template <class Products>
struct Iteration {
  using Matrix = typename Products::Matrix;

  const QuinticSequence& coefficients;
  int steps;
  NewtonSchulzAlgorithm algorithm;
  Products products;
  Matrix x;
  Matrix other;
  Matrix small[4];
};

template <class Products>
void update_x(Iteration<Products>& it, const typename Products::Matrix& q) {
  it.products.apply(q, it.x, it.other);
  std::swap(it.x, it.other);
}

template <class Products>
void iterate_standard(Iteration<Products>& it) {
  const auto r = it.small[0];
  const auto z = it.small[1];
  for (int step = 0; step < it.steps; ++step) {
    it.products.gram(it.x, r);
    it.products.square(r, z);
    polynomial(it.coefficients.at(step), r, z);
    update_x(it, z);
  }
}

// X_t = Q X_0 with Q a polynomial of R = X_0 X_0^T: all steps act on small matrices (Dao AI Lab, Gram Newton-Schulz,
// 2026). With z = a I + b R + c R^2, a step is Q <- Q z and R <- R z^2.
template <class Products>
void iterate_gram(Iteration<Products>& it) {
  const auto r = it.small[0];  // R needs no swap: its second product lands in it
  auto z = it.small[1];
  auto q = it.small[2];
  auto spare = it.small[3];
  bool q_is_identity = true;
  it.products.gram(it.x, r);
  for (int step = 0; step < it.steps; ++step) {
    if (restarts_before(step, it.steps, it.algorithm)) {
      update_x(it, q);
      it.products.gram(it.x, r);
      q_is_identity = true;
    }
    it.products.square(r, z);
    polynomial(it.coefficients.at(step), r, z);
    if (step + 1 < it.steps && !restarts_before(step + 1, it.steps, it.algorithm)) {
      it.products.multiply(r, z, spare);
      it.products.multiply(z, spare, r);
    }
    if (q_is_identity) {
      std::swap(q, z);
    } else {
      it.products.multiply(q, z, spare);
      std::swap(q, spare);
    }
    q_is_identity = false;
  }
  update_x(it, q);
}

template <class Products>
void iterate(Iteration<Products>& it) {
  if (it.algorithm == NewtonSchulzAlgorithm::standard) {
    iterate_standard(it);
  } else {
    iterate_gram(it);
  }
}

}  // namespace matrixfsdp::detail

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/reference_linalg.hpp"

/// Shampoo and SOAP of one matrix in double, straight from the equations. Includes none of the modules that it judges.
namespace matrixfsdp::reference {

inline Dense combine(double a, const Dense& x, double b, const Dense& y) {
  Dense result = x;
  for (std::size_t i = 0; i < x.values.size(); ++i)
    result.values[i] = a * x.values[i] + b * y.values[i];
  return result;
}

template <class Function>
Dense entrywise(const Dense& x, const Dense& y, const Function& function) {
  Dense result = x;
  for (std::size_t i = 0; i < x.values.size(); ++i)
    result.values[i] = function(x.values[i], y.values[i]);
  return result;
}

inline Dense identity(std::int64_t extent) {
  Dense result(extent, extent);
  for (std::int64_t i = 0; i < extent; ++i)
    result(i, i) = 1.0;
  return result;
}

/// (A + epsilon I)^(-1/4) of a positive semidefinite A, whose singular vectors are its eigenvectors.
inline Dense inverse_fourth_root(const Dense& a, double epsilon) {
  const Svd parts = svd(a);
  Dense scaled = parts.v;
  for (std::int64_t i = 0; i < scaled.rows; ++i) {
    for (std::int64_t j = 0; j < scaled.cols; ++j)
      scaled(i, j) *= std::pow(parts.sigma[static_cast<std::size_t>(j)] + epsilon, -0.25);
  }
  return multiply(scaled, transpose(parts.v));
}

enum class GraftedNorm { none, sgd, adam };

struct ShampooSettings {
  double learning_rate = 0.1;
  double weight_decay = 0.0;
  double beta1 = 0.9;
  double beta3 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-12;
  bool bias_correction = true;
  int frequency = 1;
  int start = 1;
  GraftedNorm grafting = GraftedNorm::adam;
  double grafting_beta2 = 0.95;
  double grafting_epsilon = 1e-8;
};

class Shampoo {
 public:
  Shampoo(const ShampooSettings& settings, const Dense& initial)
      : weight(initial),
        settings_(settings),
        left_(initial.rows, initial.rows),
        right_(initial.cols, initial.cols),
        left_root_(identity(initial.rows)),
        right_root_(identity(initial.cols)),
        average_(initial.rows, initial.cols),
        squares_(initial.rows, initial.cols) {}

  void step(const Dense& g) {
    const ShampooSettings& s = settings_;
    ++t_;
    const double fraction = s.beta2 < 1.0 ? 1.0 - s.beta2 : 1.0;
    left_ = combine(s.beta2, left_, fraction, multiply(g, transpose(g)));
    right_ = combine(s.beta2, right_, fraction, multiply(transpose(g), g));
    squares_ = entrywise(squares_, g,
                         [&](double v, double x) { return s.grafting_beta2 * v + (1.0 - s.grafting_beta2) * x * x; });
    if (t_ == s.start || (t_ > s.start && t_ % s.frequency == 0)) make_roots();
    Dense filtered = s.beta1 > 0.0 ? combine(s.beta3, average_, 1.0 - s.beta3, g) : g;
    average_ = combine(s.beta1, average_, 1.0 - s.beta1, g);
    if (s.bias_correction && s.beta1 > 0.0) {
      const double correction = 1.0 - s.beta3 * std::pow(s.beta1, t_ - 1);
      filtered = combine(1.0 / correction, filtered, 0.0, filtered);
    }
    const Dense update = direction(filtered);
    weight = combine(1.0 - s.learning_rate * s.weight_decay, weight, -s.learning_rate, update);
  }

  Dense weight;

 private:
  void make_roots() {
    const bool corrects = settings_.bias_correction && settings_.beta2 < 1.0;
    const double scale = corrects ? 1.0 / (1.0 - std::pow(settings_.beta2, t_)) : 1.0;
    left_root_ = inverse_fourth_root(combine(scale, left_, 0.0, left_), settings_.epsilon);
    right_root_ = inverse_fourth_root(combine(scale, right_, 0.0, right_), settings_.epsilon);
  }

  [[nodiscard]] Dense grafted(const Dense& filtered) const {
    if (settings_.grafting != GraftedNorm::adam) return filtered;
    const double correction = settings_.bias_correction ? 1.0 - std::pow(settings_.grafting_beta2, t_) : 1.0;
    return entrywise(filtered, squares_,
                     [&](double m, double v) { return m / (std::sqrt(v / correction) + settings_.grafting_epsilon); });
  }

  [[nodiscard]] Dense direction(const Dense& filtered) const {
    if (t_ < settings_.start) return grafted(filtered);
    const Dense own = multiply(multiply(left_root_, filtered), right_root_);
    if (settings_.grafting == GraftedNorm::none) return own;
    return combine(norm(grafted(filtered)) / (norm(own) + 1e-16), own, 0.0, own);
  }

  ShampooSettings settings_;
  int t_ = 0;
  Dense left_;
  Dense right_;
  Dense left_root_;
  Dense right_root_;
  Dense average_;
  Dense squares_;
};

struct SoapSettings {
  double learning_rate = 0.1;
  double weight_decay = 0.0;
  double beta1 = 0.95;
  double beta2 = 0.95;
  double factor_beta = 0.95;
  double epsilon = 1e-8;
  bool bias_correction = true;
  int frequency = 10;
};

/// Q of A = Q R with a positive diagonal of R, by two rounds of Gram and Schmidt.
inline Dense orthonormal_columns(Dense a) {
  for (std::int64_t j = 0; j < a.cols; ++j) {
    for (int round = 0; round < 2; ++round) {
      for (std::int64_t k = 0; k < j; ++k) {
        double along = 0.0;
        for (std::int64_t i = 0; i < a.rows; ++i)
          along += a(i, k) * a(i, j);
        for (std::int64_t i = 0; i < a.rows; ++i)
          a(i, j) -= along * a(i, k);
      }
    }
    double sum = 0.0;
    for (std::int64_t i = 0; i < a.rows; ++i)
      sum += a(i, j) * a(i, j);
    for (std::int64_t i = 0; i < a.rows; ++i)
      a(i, j) /= std::sqrt(sum);
  }
  return a;
}

/// Bases as columns, as the paper has them. The moments are kept in the original coordinates (first) and in the basis
/// (second).
class Soap {
 public:
  Soap(const SoapSettings& settings, const Dense& initial)
      : weight(initial),
        settings_(settings),
        left_(initial.rows, initial.rows),
        right_(initial.cols, initial.cols),
        average_(initial.rows, initial.cols),
        squares_(initial.rows, initial.cols) {}

  void step(const Dense& g) {
    const SoapSettings& s = settings_;
    if (calls_++ == 0) {
      add(g);
      left_basis = sorted_eigenvectors(left_);
      right_basis = sorted_eigenvectors(right_);
      return;
    }
    const int t = calls_ - 1;
    average_ = combine(s.beta1, average_, 1.0 - s.beta1, g);
    const Dense rotated = into_basis(g);
    squares_ = entrywise(squares_, rotated, [&](double v, double x) { return s.beta2 * v + (1.0 - s.beta2) * x * x; });
    const Dense ratio =
        entrywise(into_basis(average_), squares_, [&](double m, double v) { return m / (std::sqrt(v) + s.epsilon); });
    const Dense update = multiply(multiply(left_basis, ratio), transpose(right_basis));
    const double correction =
        s.bias_correction ? std::sqrt(1.0 - std::pow(s.beta2, t)) / (1.0 - std::pow(s.beta1, t)) : 1.0;
    weight = combine(1.0, weight, -s.learning_rate * correction, update);
    weight = combine(1.0 - s.learning_rate * s.weight_decay, weight, 0.0, weight);
    add(g);
    if (t % s.frequency == 0) refresh();
  }

  Dense weight;
  Dense left_basis;
  Dense right_basis;

 private:
  void add(const Dense& g) {
    const double b = settings_.factor_beta;
    left_ = combine(b, left_, 1.0 - b, multiply(g, transpose(g)));
    right_ = combine(b, right_, 1.0 - b, multiply(transpose(g), g));
  }

  [[nodiscard]] Dense into_basis(const Dense& x) const {
    return multiply(multiply(transpose(left_basis), x), right_basis);
  }

  static Dense columns(const Dense& a, const std::vector<std::int64_t>& order) {
    Dense result = a;
    for (std::int64_t i = 0; i < a.rows; ++i) {
      for (std::int64_t j = 0; j < a.cols; ++j)
        result(i, j) = a(i, order[static_cast<std::size_t>(j)]);
    }
    return result;
  }

  static std::vector<std::int64_t> descending(const std::vector<double>& values) {
    std::vector<std::int64_t> order(values.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
    });
    return order;
  }

  static Dense sorted_eigenvectors(const Dense& a) {
    const Svd parts = svd(a);
    return columns(parts.v, descending(parts.sigma));
  }

  /// The basis after one power step, and the old one's columns in their order.
  static Dense powered(const Dense& factor, const Dense& basis, std::vector<std::int64_t>& order) {
    const Dense rotated = multiply(multiply(transpose(basis), factor), basis);
    std::vector<double> estimates;
    for (std::int64_t i = 0; i < rotated.rows; ++i)
      estimates.push_back(rotated(i, i));
    order = descending(estimates);
    return orthonormal_columns(multiply(factor, columns(basis, order)));
  }

  void refresh() {
    std::vector<std::int64_t> order;
    left_basis = powered(left_, left_basis, order);
    squares_ = transpose(columns(transpose(squares_), order));
    right_basis = powered(right_, right_basis, order);
    squares_ = columns(squares_, order);
  }

  SoapSettings settings_;
  int calls_ = 0;
  Dense left_;
  Dense right_;
  Dense average_;
  Dense squares_;
};

}  // namespace matrixfsdp::reference

#include "support/oracle/newton_schulz.hpp"

#include <cmath>
#include <stdexcept>

namespace oracle {
namespace {

/// X (X^T Y), for X and Y of equal extents.
Matrix gram_times(const Matrix& x, const Matrix& y) {
  Matrix inner(x.cols, y.cols);
  for (std::size_t k = 0; k < x.rows; ++k) {
    for (std::size_t i = 0; i < x.cols; ++i) {
      for (std::size_t j = 0; j < y.cols; ++j)
        inner(i, j) += x(k, i) * y(k, j);
    }
  }
  Matrix product(x.rows, y.cols);
  for (std::size_t k = 0; k < x.rows; ++k) {
    for (std::size_t i = 0; i < x.cols; ++i) {
      for (std::size_t j = 0; j < y.cols; ++j)
        product(k, j) += x(k, i) * inner(i, j);
    }
  }
  return product;
}

}  // namespace

Quintic quintic(const std::string& table, std::size_t step) {
  if (table == "keller-jordan") return {3.4445, -4.7750, 2.0315};
  if (table != "polar-express") throw std::invalid_argument("oracle: coefficients " + table);
  // Amsel et al. 2025, appendix A.
  const Quintic published[] = {
      {8.28721201814563, -23.595886519098837, 17.300387312530933},
      {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
      {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
      {3.3184196573706015, -2.488488024314874, 0.51004894012372},
      {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
      {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
      {1.8750014808534479, -1.2500016453999487, 0.3750001645474248},
      {1.875, -1.25, 0.375},
  };
  const double safety = step < 5 ? 1.05 : 1.0;
  const Quintic& entry = published[step < 7 ? step : 7];
  return {entry.a / safety, entry.b / std::pow(safety, 3), entry.c / std::pow(safety, 5)};
}

Matrix newton_schulz(const Matrix& g, const std::string& table, std::size_t steps) {
  double square = 0.0;
  for (const double value : g.values)
    square += value * value;
  if (square == 0.0) return g;
  Matrix x = g;
  for (double& value : x.values)
    value /= std::sqrt(square);
  for (std::size_t step = 0; step < steps; ++step) {
    const Quintic p = quintic(table, step);
    const Matrix cubic = gram_times(x, x);
    const Matrix fifth = gram_times(x, cubic);
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = p.a * x.values[i] + p.b * cubic.values[i] + p.c * fifth.values[i];
  }
  return x;
}

}  // namespace oracle

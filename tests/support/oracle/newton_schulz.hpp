#pragma once

#include <string>

#include "support/oracle/tensor.hpp"

namespace oracle {

/// p(x) = a x + b x^3 + c x^5
struct Quintic {
  double a;
  double b;
  double c;
};

/// "polar-express" or "keller-jordan"; step counts from 0, and the last entry of a table repeats.
Quintic quintic(const std::string& table, std::size_t step);

/// X <- G / ||G||_F, then `steps` times X <- a X + b (X X^T) X + c (X X^T)^2 X. Zero for a zero G.
Matrix newton_schulz(const Matrix& g, const std::string& table, std::size_t steps);

}  // namespace oracle

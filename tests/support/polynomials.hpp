#pragma once

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "support/reference_linalg.hpp"

namespace matrixfsdp::test {

/// The first `count` polynomials of a sequence, as the reference applies them.
inline reference::Steps steps_of(const QuinticSequence& sequence, int count) {
  reference::Steps steps;
  for (int step = 0; step < count; ++step) {
    const Quintic& p = sequence.at(step);
    steps.push_back({p.a, p.b, p.c});
  }
  return steps;
}

}  // namespace matrixfsdp::test

#pragma once

#include <cstdint>

#include "support/oracle/model.hpp"

namespace oracle {

/// T + 1 token ids: inputs are the first T, targets the last T.
using Sequence = std::vector<std::int32_t>;

/// Sum over the targets of -log p(target).
double loss_sum(const Model& model, const Parameters& parameters, const Sequence& sequence);

/// The same sum; adds the gradient of scale * sum to `gradient`, which has every parameter.
double loss_sum_and_gradient(const Model& model, const Parameters& parameters, const Sequence& sequence, double scale,
                             Parameters& gradient);

/// A zero for every parameter.
Parameters zeros_like(const Parameters& parameters);

}  // namespace oracle

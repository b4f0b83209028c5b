#include "apps/train/verify.hpp"

#include <bit>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {
namespace {

using Member = TensorView<float> ParameterView::*;

void compare(const Replica& replica, const Replica& reference, Member member, const char* what, std::int64_t step) {
  for (const ParameterView& mine : replica.model.trainable()) {
    for (const ParameterView& theirs : reference.model.trainable()) {
      if (theirs.unit != mine.unit || theirs.index != mine.index) continue;
      const float* expected = (theirs.*member).data() + mine.elements.begin - theirs.elements.begin;
      const float* found = (mine.*member).data();
      for (std::int64_t i = 0; i < mine.elements.size(); ++i) {
        if (std::bit_cast<std::uint32_t>(found[i]) == std::bit_cast<std::uint32_t>(expected[i])) continue;
        throw ContractError(fmt::format(
            "verify: step {}: {} of {} differs at element {}: {:.9g} under {}, {:.9g} replicated", step, what,
            mine.spec->name, mine.elements.begin + i, found[i], replica.model.plan().planner, expected[i]));
      }
    }
  }
}

}  // namespace

void verify_gradients(const Replica& replica, const Replica& reference, std::int64_t step) {
  compare(replica, reference, &ParameterView::gradient, "gradient", step);
}

void verify_weights(const Replica& replica, const Replica& reference, std::int64_t step) {
  compare(replica, reference, &ParameterView::weight, "weight", step);
}

}  // namespace matrixfsdp::train

#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>

/// Made-up gradients of micro-batches, and what their sums must be.
namespace matrixfsdp::testing {

/// Gradient of one micro-batch: values whose float sums depend on the order.
inline float micro_gradient(const std::string& name, std::int64_t element, std::int64_t index) {
  const CounterRandom random(7, stream_of(name) + static_cast<std::uint64_t>(index));
  const double magnitude = std::exp2(20.0 * random.uniform(static_cast<std::uint64_t>(2 * element)) - 10.0);
  return static_cast<float>(magnitude * (random.uniform(static_cast<std::uint64_t>(2 * element + 1)) - 0.5));
}

/// The left fold by micro-batch index, in float32: the order that no owner, plan or W changes.
inline float folded_gradient(const std::string& name, std::int64_t element, std::int64_t micro_batches) {
  float sum = micro_gradient(name, element, 0);
  for (std::int64_t index = 1; index < micro_batches; ++index)
    sum += micro_gradient(name, element, index);
  return sum;
}

/// The same of groups of `group` neighbouring indices, whose sums are then folded.
inline float folded_in_groups(const std::string& name, std::int64_t element, std::int64_t micro_batches,
                              std::int64_t group) {
  float all = 0;
  for (std::int64_t first = 0; first < micro_batches; first += group) {
    float sum = micro_gradient(name, element, first);
    for (std::int64_t index = first + 1; index < first + group; ++index)
      sum += micro_gradient(name, element, index);
    all = first == 0 ? sum : all + sum;
  }
  return all;
}

/// Adds micro-batch `index` to the gradient buffer.
inline void write_gradients(ShardedModel& model, std::size_t unit, std::int64_t index) {
  UnitTensors<float>& gradients = model.gradients(unit);
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const std::string& name = model.spec().units[unit].parameters[p].name;
    for (std::size_t i = 0; i < gradients[p].size(); ++i) {
      gradients[p](i) += micro_gradient(name, static_cast<std::int64_t>(i), index);
    }
  }
}

/// Forward and backward of every pass, as a training loop calls them, with the gradients of each rank's micro-batches;
/// between calls the rank computes.
template <class Compute>
void run_step(ShardedModel& model, std::int64_t passes, const Compute& compute) {
  const Communicator& communicator = model.communicator();
  model.begin_step();
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    model.begin_pass();
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      model.unshard(u, Phase::forward);
      compute();
      model.reshard(u);
    }
    for (std::size_t u = model.unit_count(); u-- > 0;) {
      model.unshard(u, Phase::backward);
      compute();
      write_gradients(model, u, pass * communicator.size() + communicator.rank());
      model.reshard(u);
      model.reduce(u);
    }
  }
}

inline void run_step(ShardedModel& model, std::int64_t passes) {
  run_step(model, passes, [] {});
}

/// Owners hold the left fold of `micro_batches`, in groups of `group` first, bit for bit.
inline void expect_folded_gradients(const ShardedModel& model, std::int64_t micro_batches, std::int64_t group = 1) {
  for (const ParameterView& view : model.trainable()) {
    for (std::int64_t i = 0; i < view.elements.size(); ++i) {
      const std::int64_t element = view.elements.begin + i;
      const float expected = group == 1 ? folded_gradient(view.spec->name, element, micro_batches)
                                        : folded_in_groups(view.spec->name, element, micro_batches, group);
      ASSERT_EQ(view.gradient(static_cast<std::size_t>(i)), expected)
          << view.spec->name << " element " << element << " of " << micro_batches << " micro-batches";
    }
  }
}

}  // namespace matrixfsdp::testing

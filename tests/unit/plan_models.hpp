#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/messages.hpp"
#include "support/specs.hpp"

/// Models and measures for the tests of plan.
namespace matrixfsdp::test {

inline ModelSpec one_unit(std::vector<ParameterSpec> parameters) {
  ModelSpec model;
  model.units.push_back({"unit", std::move(parameters), false});
  return model;
}

/// `count` units of `square` h x h and `wide` h x 4h matrices.
inline ModelSpec blocks(int count, std::int64_t h, int square, int wide) {
  ModelSpec model;
  for (int b = 0; b < count; ++b) {
    UnitSpec unit{"block." + std::to_string(b), {}, false};
    for (int i = 0; i < square; ++i)
      unit.parameters.push_back(parameter(unit.name + ".square." + std::to_string(i), {h, h}));
    for (int i = 0; i < wide; ++i)
      unit.parameters.push_back(parameter(unit.name + ".wide." + std::to_string(i), {h, 4 * h}));
    model.units.push_back(std::move(unit));
  }
  return model;
}

/// A model of any composition: up to 5 units of up to 9 parameters of any kind, frozen, empty and fused ones too.
inline ModelSpec random_model(std::uint64_t seed) {
  const CounterRandom random(seed, stream_of("plan tests"));
  std::uint64_t index = 0;
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random.below(index++, static_cast<std::uint64_t>(high - low + 1)));
  };
  ModelSpec model;
  const std::int64_t units = draw(1, 5);
  for (std::int64_t u = 0; u < units; ++u) {
    UnitSpec unit{"unit." + std::to_string(u), {}, draw(0, 3) == 0};
    const std::int64_t parameters = draw(0, 9);
    for (std::int64_t p = 0; p < parameters; ++p) {
      ParameterSpec spec = parameter(unit.name + ".p" + std::to_string(p), {});
      switch (draw(0, 7)) {
        case 0:
          spec.shape = {draw(1, 20000)};
          break;
        case 1:
          spec.shape = {draw(1, 300), draw(1, 60)};
          spec.embedding = true;
          break;
        case 2:
          spec.shape = {draw(0, 3), draw(0, 30)};
          break;
        case 3:
          spec.shape = {draw(2, 5), draw(2, 20), draw(2, 20)};
          break;
        case 4:
          spec.shape = {draw(2, 30), draw(1, 9)};
          spec.kind = draw(0, 1) == 0 ? ParameterKind::matrix : ParameterKind::tail;
          break;
        case 5: {
          const std::int64_t part = draw(2, 20);
          spec.shape = {2 * part, draw(2, 40)};
          spec.blocks = {0, {"first", "second"}, {part, part}};
          break;
        }
        default:
          spec.shape = {draw(2, 90), draw(2, 90)};
      }
      spec.frozen = draw(0, 5) == 0;
      unit.parameters.push_back(std::move(spec));
    }
    model.units.push_back(std::move(unit));
  }
  return model;
}

/// Larger of bytes and FLOPs of the heaviest rank, each over its lower bound.
inline double over_bound(const ModelSpec& model, const Plan& plan, const OptimizerCost& cost = {}) {
  MemoryOptions options;
  options.optimizer = cost;
  const PlanReport figures = report(model, plan, options);
  return std::max(figures.imbalance_bytes / figures.lower_bound_bytes,
                  figures.imbalance_flops / figures.lower_bound_flops);
}

inline Plan plan_with(const ModelSpec& model, int world_size, Policy policy,
                      TailPlacement tails = TailPlacement::automatic) {
  PlannerOptions options;
  options.policy = policy;
  options.tails = tails;
  return make_plan(model, world_size, options);
}

constexpr Policy all_policies[] = {Policy::role, Policy::scope, Policy::cost, Policy::balanced};
constexpr TailPlacement all_tail_placements[] = {TailPlacement::automatic, TailPlacement::packed,
                                                 TailPlacement::spread};

}  // namespace matrixfsdp::test

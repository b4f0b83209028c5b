#include "plan/workload.hpp"

#include <algorithm>
#include <cmath>

namespace matrixfsdp::detail {
namespace {

double inverse_bound(std::int64_t total, std::int64_t largest, int world_size) {
  const double bound = std::max(static_cast<double>(total) / world_size, static_cast<double>(largest));
  return bound > 0 ? 1.0 / bound : 0.0;
}

std::int64_t nanoseconds(const ParameterSpec& parameter, bool matrix, const MeasuredCosts& measured) {
  if (!matrix || parameter.frozen) return 0;
  return std::llround(1e9 * measured_seconds(measured, parameter));
}

/// Scaled so that the mean speed is 1.
std::vector<double> scaled(std::vector<double> slowness) {
  double speed = 0;
  for (const double slow : slowness)
    speed += 1 / slow;
  for (double& slow : slowness)
    slow *= speed / static_cast<double>(slowness.size());
  return slowness;
}

}  // namespace

Workload make_workload(const ModelSpec& model, int world_size, const OptimizerCost& cost, bool packed_tails,
                       const MeasuredCosts* measured) {
  Workload work;
  work.world_size = world_size;
  work.matrices_of_unit.assign(model.units.size(), 0);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::vector<ParameterSpec>& parameters = model.units[u].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::int64_t count = element_count(parameters[p].shape);
      if (count == 0) continue;
      const bool matrix = kind_of(parameters[p]) == ParameterKind::matrix;
      const Load load{resident_bytes(parameters[p], count, cost), measured != nullptr
                                                                      ? nanoseconds(parameters[p], matrix, *measured)
                                                                      : step_flops(parameters[p], cost)};
      (matrix ? work.matrices : work.tails).push_back({u, p, count, load});
      work.matrices_of_unit[u] += matrix ? 1 : 0;
      work.total += load;
      if (matrix || packed_tails) {
        work.largest = {std::max(work.largest.bytes, load.bytes), std::max(work.largest.flops, load.flops)};
      }
    }
  }
  work.bytes_scale = inverse_bound(work.total.bytes, work.largest.bytes, world_size);
  work.flops_scale = inverse_bound(work.total.flops, work.largest.flops, world_size);
  if (measured != nullptr && measured->slowness.size() == static_cast<std::size_t>(world_size))
    work.slowness = scaled(measured->slowness);
  return work;
}

double Assignment::worst(const Workload& workload) const {
  double worst = 0;
  for (std::size_t rank = 0; rank < loads.size(); ++rank)
    worst = std::max(worst, workload.key(loads[rank], rank));
  return worst;
}

}  // namespace matrixfsdp::detail

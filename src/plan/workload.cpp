#include "plan/workload.hpp"

#include <algorithm>

namespace matrixfsdp::detail {
namespace {

double inverse_bound(std::int64_t total, std::int64_t largest, int world_size) {
  const double bound = std::max(static_cast<double>(total) / world_size, static_cast<double>(largest));
  return bound > 0 ? 1.0 / bound : 0.0;
}

}  // namespace

Workload make_workload(const ModelSpec& model, int world_size, const OptimizerCost& cost, bool packed_tails) {
  Workload work;
  work.world_size = world_size;
  work.matrices_of_unit.assign(model.units.size(), 0);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::vector<ParameterSpec>& parameters = model.units[u].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::int64_t count = element_count(parameters[p].shape);
      if (count == 0) continue;
      const Load load{count * resident_bytes_per_element(parameters[p], cost), step_flops(parameters[p], cost)};
      const bool matrix = kind_of(parameters[p]) == ParameterKind::matrix;
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
  return work;
}

double Assignment::worst(const Workload& workload) const {
  double worst = 0;
  for (const Load load : loads)
    worst = std::max(worst, workload.key(load));
  return worst;
}

}  // namespace matrixfsdp::detail

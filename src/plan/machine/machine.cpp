#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/machine.hpp>

namespace matrixfsdp {
namespace {

void require_rate(std::string_view name, double value) {
  if (std::isfinite(value) && value > 0) return;
  throw InputError(fmt::format("machine: {} {}: expected a finite number above 0", name, value));
}

void validate(std::string_view name, const MachineLink& link) {
  if (!std::isfinite(link.latency_seconds) || link.latency_seconds < 0) {
    throw InputError(fmt::format("machine: {}.latency_seconds {}: expected a finite number of 0 or more", name,
                                 link.latency_seconds));
  }
  require_rate(fmt::format("{}.bytes_per_second", name), link.bytes_per_second);
  require_rate(fmt::format("{}.node_bytes_per_second", name), link.node_bytes_per_second);
}

void validate_slow_ranks(const Machine& machine) {
  std::int64_t before = -1;
  for (const SlowRank& slow : machine.slow_ranks) {
    if (slow.rank <= before || slow.rank >= machine.ranks()) {
      throw InputError(
          fmt::format("machine: slow rank {}: expected ranks from 0 to {}, ascending", slow.rank, machine.ranks() - 1));
    }
    if (!std::isfinite(slow.factor) || slow.factor < 1) {
      throw InputError(fmt::format("machine: factor {} of slow rank {}: expected a finite number of at least 1",
                                   slow.factor, slow.rank));
    }
    before = slow.rank;
  }
}

LinkModel link_model(const MachineLink& link) {
  LinkModel model;
  model.alpha_seconds = link.latency_seconds;
  model.beta_seconds_per_byte = 1 / link.bytes_per_second;
  model.node_beta_seconds_per_byte = 1 / link.node_bytes_per_second;
  model.all_beta_seconds_per_byte = model.node_beta_seconds_per_byte;
  return model;
}

}  // namespace

double Machine::slowness(int rank) const {
  const auto found = std::lower_bound(slow_ranks.begin(), slow_ranks.end(), rank,
                                      [](const SlowRank& slow, int wanted) { return slow.rank < wanted; });
  return found != slow_ranks.end() && found->rank == rank ? found->factor : 1;
}

void validate(const Machine& machine) {
  if (machine.nodes < 1) throw InputError(fmt::format("machine: nodes {}: expected at least 1", machine.nodes));
  if (machine.ranks_per_node < 1)
    throw InputError(fmt::format("machine: ranks_per_node {}: expected at least 1", machine.ranks_per_node));
  validate("inside", machine.inside);
  validate("between", machine.between);
  require_rate("gemm_flops_per_second", machine.gemm_flops_per_second);
  require_rate("orthogonalize_flops_per_second", machine.orthogonalize_flops_per_second);
  require_rate("memory_bytes", machine.memory_bytes);
  require_rate("memory_bytes_per_second", machine.memory_bytes_per_second);
  validate_slow_ranks(machine);
}

Machine resized(Machine machine, int nodes, int ranks_per_node) {
  machine.nodes = nodes;
  machine.ranks_per_node = ranks_per_node;
  std::erase_if(machine.slow_ranks, [&machine](const SlowRank& slow) { return slow.rank >= machine.ranks(); });
  validate(machine);
  return machine;
}

CollectiveProfile collective_profile(const Machine& machine) {
  validate(machine);
  CollectiveProfile profile;
  profile.world_size = static_cast<int>(machine.ranks());
  profile.nodes = machine.nodes;
  profile.inside = link_model(machine.inside);
  profile.between = link_model(machine.between);
  return profile;
}

}  // namespace matrixfsdp

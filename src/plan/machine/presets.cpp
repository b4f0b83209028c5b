#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/machine.hpp>

namespace matrixfsdp {
namespace {

constexpr double giga = 1e9;
constexpr double tera = 1e12;

/// Links between nodes and products: what the published 8-node figures imply. NVLink 3 and memory: about three quarters
/// of what their maker names (300 GB/s in each direction, 2039 GB/s).
Machine a100_8x8() {
  Machine machine;
  machine.name = "a100-8x8";
  machine.nodes = 8;
  machine.ranks_per_node = 8;
  machine.inside = {5e-6, 230 * giga, 8 * 230 * giga};
  machine.between = {10e-6, 20 * giga, 8 * 20 * giga};
  machine.gemm_flops_per_second = 177 * tera;
  machine.orthogonalize_flops_per_second = 177 * tera;
  machine.memory_bytes = 80 * giga;
  machine.memory_bytes_per_second = 1500 * giga;
  return machine;
}

/// The same share of what the maker names: 989 TFLOP/s of bfloat16, NVLink 4 (450 GB/s), 4800 GB/s of memory. One node:
/// what lies between nodes is a 400 Gbit/s adapter for each rank.
Machine h200_node() {
  Machine machine;
  machine.name = "h200-node";
  machine.nodes = 1;
  machine.ranks_per_node = 8;
  machine.inside = {5e-6, 340 * giga, 8 * 340 * giga};
  machine.between = {10e-6, 40 * giga, 8 * 40 * giga};
  machine.gemm_flops_per_second = 560 * tera;
  machine.orthogonalize_flops_per_second = 560 * tera;
  machine.memory_bytes = 141 * giga;
  machine.memory_bytes_per_second = 3600 * giga;
  return machine;
}

}  // namespace

std::vector<std::string> machine_preset_names() {
  return {"a100-8x8", "h200-node"};
}

Machine machine_preset(std::string_view name) {
  for (const Machine& machine : {a100_8x8(), h200_node()}) {
    if (name == machine.name) return machine;
  }
  throw InputError(fmt::format("machine '{}': expected one of {}", name, fmt::join(machine_preset_names(), ", ")));
}

}  // namespace matrixfsdp

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/unit_policy.hpp>

#include "plan/wire.hpp"

namespace matrixfsdp {

std::vector<UnitPolicy> resolve(const UnitPolicies& policies, const ModelSpec& model, int group_size) {
  std::vector<std::string> names;
  names.reserve(model.units.size());
  for (const UnitSpec& unit : model.units)
    names.push_back(unit.name);
  for (const auto& [name, policy] : policies.by_unit) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw InputError(fmt::format("policy of unit '{}': expected one of {}", name, fmt::join(names, ", ")));
  }
  std::vector<UnitPolicy> resolved;
  resolved.reserve(names.size());
  for (const std::string& name : names) {
    const auto own = policies.by_unit.find(name);
    resolved.push_back(own == policies.by_unit.end() ? policies.all : own->second);
    detail::require_wire(resolved.back().param_dtype, "param dtype");
    detail::require_wire(resolved.back().reduce_dtype, "reduce dtype");
    const std::int64_t holders = resolved.back().reshard_to;
    if (holders < 0 || (holders > 0 && group_size % holders != 0)) {
      throw InputError(
          fmt::format("policy of unit '{}': reshard to {} ranks: expected 0, or a divisor of the {} of a "
                      "shard group",
                      name, holders, group_size));
    }
  }
  return resolved;
}

}  // namespace matrixfsdp

#include <cmath>
#include <set>
#include <string>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/model_spec.hpp>

#include "plan/blocks.hpp"

namespace matrixfsdp {
namespace {

/// Bytes of weights, gradients and state, summed over the model, must fit 64 bits with room to spare.
constexpr std::int64_t element_limit = std::int64_t{1} << 58;

/// Names become names of datasets in a checkpoint, where '/' separates groups.
void check_name(const char* thing, const std::string& name) {
  if (name.empty()) throw InputError(fmt::format("{} name '': expected a name that is not empty", thing));
  if (name.find('/') != std::string::npos) {
    throw InputError(fmt::format("{} name '{}': expected a name without '/'", thing, name));
  }
}

void check_unique(std::set<std::string>& seen, const char* thing, const std::string& name) {
  check_name(thing, name);
  if (!seen.insert(name).second) {
    throw InputError(fmt::format("{} name '{}': met twice, expected unique names", thing, name));
  }
}

void check_number(const char* thing, const std::string& name, const char* what, double value) {
  if (!std::isfinite(value) || value < 0) {
    throw InputError(
        fmt::format("{} '{}': {} {}, expected a finite number that is not negative", thing, name, what, value));
  }
}

std::set<std::string> check_groups(const ModelSpec& model) {
  std::set<std::string> names;
  for (const ParameterGroup& group : model.groups) {
    check_unique(names, "group", group.name);
    check_number("group", group.name, "learning rate scale", group.learning_rate_scale);
    if (group.weight_decay) check_number("group", group.name, "weight decay", *group.weight_decay);
  }
  return names;
}

std::int64_t checked_count(const ParameterSpec& parameter) {
  for (const std::int64_t extent : parameter.shape) {
    if (extent < 0) {
      throw InputError(fmt::format("parameter '{}': shape {}, expected extents of at least 0", parameter.name,
                                   to_string(parameter.shape)));
    }
  }
  try {
    return element_count(parameter.shape);
  } catch (const ContractError& error) {
    throw InputError(fmt::format("parameter '{}': {}", parameter.name, error.what()));
  }
}

void check_parameter(const ParameterSpec& parameter, const std::set<std::string>& groups) {
  if (!parameter.blocks.empty() && kind_of(parameter) != ParameterKind::matrix) {
    throw InputError(fmt::format("parameter '{}': {} blocks on a tail of shape {}, expected blocks on matrices only",
                                 parameter.name, parameter.blocks.sizes.size(), to_string(parameter.shape)));
  }
  detail::check_blocks(parameter);
  if (!parameter.group.empty() && groups.count(parameter.group) == 0) {
    throw InputError(fmt::format("parameter '{}': group '{}', expected one of the model's {} groups", parameter.name,
                                 parameter.group, groups.size()));
  }
  check_number("parameter", parameter.name, "standard deviation", parameter.initialization.standard_deviation);
}

void check_tied(const ModelSpec& model, std::set<std::string> parameters) {
  const std::set<std::string> targets = parameters;
  for (const TiedParameter& tied : model.tied) {
    check_unique(parameters, "tied parameter", tied.name);
    if (targets.count(tied.target) == 0) {
      throw InputError(fmt::format(
          "tied parameter '{}': target '{}', expected the name of a parameter that is not itself a second name",
          tied.name, tied.target));
    }
  }
}

}  // namespace

void validate(const ModelSpec& model) {
  const std::set<std::string> groups = check_groups(model);
  std::set<std::string> units;
  std::set<std::string> parameters;
  std::int64_t total = 0;
  for (const UnitSpec& unit : model.units) {
    check_unique(units, "unit", unit.name);
    for (const ParameterSpec& parameter : unit.parameters) {
      check_unique(parameters, "parameter", parameter.name);
      const std::int64_t count = checked_count(parameter);
      check_parameter(parameter, groups);
      if (count > element_limit - total) {
        throw InputError(fmt::format("parameter '{}': shape {} brings the model beyond 2^58 elements", parameter.name,
                                     to_string(parameter.shape)));
      }
      total += count;
    }
  }
  check_tied(model, std::move(parameters));
}

}  // namespace matrixfsdp

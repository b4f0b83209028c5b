#include "apps/train/unit_policies.hpp"

#include <array>
#include <charconv>
#include <functional>
#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {
namespace {

/// A key of a unit's policy. `read` gets the name for messages, and the value.
struct Key {
  std::string_view name;
  std::string_view values;
  void (*read)(UnitPolicy& policy, const std::string& name, const std::string& value);
  std::string (*write)(const UnitPolicy& policy);
};

const std::array keys{
    Key{"param-dtype", "float32|bfloat16",
        [](UnitPolicy& policy, const std::string& name, const std::string& value) {
          policy.param_dtype = parse_wire(name, value);
        },
        [](const UnitPolicy& policy) { return std::string(name_of(policy.param_dtype)); }},
    Key{"reduce-dtype", "float32|bfloat16",
        [](UnitPolicy& policy, const std::string& name, const std::string& value) {
          policy.reduce_dtype = parse_wire(name, value);
        },
        [](const UnitPolicy& policy) { return std::string(name_of(policy.reduce_dtype)); }},
    Key{"reshard", "yes|no|RANKS",
        [](UnitPolicy& policy, const std::string& name, const std::string& value) {
          policy.reshard_to = parse_reshard(name, value);
        },
        [](const UnitPolicy& policy) {
          if (policy.reshard_to == 0) return std::string("yes");
          return policy.reshard_to == 1 ? std::string("no") : std::to_string(policy.reshard_to);
        }},
};

/// "param-dtype=float32|bfloat16, reduce-dtype=..."
std::string known_keys() {
  std::string known;
  for (const Key& key : keys)
    known += fmt::format("{}{}={}", known.empty() ? "" : ", ", key.name, key.values);
  return known;
}

const Key& find_key(const std::string& text, std::string_view name) {
  for (const Key& key : keys) {
    if (key.name == name) return key;
  }
  throw InputError(fmt::format("--unit-policy '{}': key '{}': expected one of {}", text, name, known_keys()));
}

void apply_setting(const std::string& text, const std::string& setting, UnitPolicy& policy) {
  const std::size_t equals = setting.find('=');
  const std::string name = setting.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : setting.substr(equals + 1);
  find_key(text, name).read(policy, fmt::format("--unit-policy '{}': {}", text, name), value);
}

}  // namespace

std::string unit_policy_help() {
  return fmt::format(
      "For one unit (root, block.0, ...), NAME:KEY=VALUE,... with the keys {}; keys that are not given are the whole "
      "model's. May be repeated. Example: root:param-dtype=float32 computes with exact embeddings and norms",
      known_keys());
}

DType parse_wire(const std::string& name, const std::string& value) {
  if (value == name_of(DType::float32)) return DType::float32;
  if (value == name_of(DType::bfloat16)) return DType::bfloat16;
  throw InputError(fmt::format("{} '{}': expected float32 or bfloat16", name, value));
}

std::int64_t parse_reshard(const std::string& name, const std::string& value) {
  if (value == "yes") return 0;
  if (value == "no") return 1;
  std::int64_t ranks = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), ranks);
  if (error == std::errc() && end == value.data() + value.size() && ranks > 1 && ranks <= 1'000'000) return ranks;
  throw InputError(fmt::format("{} '{}': expected yes, no, or 2 or more ranks", name, value));
}

void add_unit_policies(const std::vector<std::string>& texts, UnitPolicies& policies) {
  for (const std::string& text : texts) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos || colon == 0)
      throw InputError(fmt::format("--unit-policy '{}': expected NAME:KEY=VALUE,... with {}", text, known_keys()));
    const auto unit = policies.by_unit.try_emplace(text.substr(0, colon), policies.all).first;
    for (std::size_t begin = colon; begin != std::string::npos;) {
      const std::size_t end = text.find(',', begin + 1);
      apply_setting(text, text.substr(begin + 1, end - begin - 1), unit->second);
      begin = end;
    }
  }
}

nlohmann::json to_json(const UnitPolicies& policies) {
  nlohmann::json units = nlohmann::json::object();
  for (const auto& [name, policy] : policies.by_unit) {
    for (const Key& key : keys)
      units[name][std::string(key.name)] = key.write(policy);
  }
  return units;
}

}  // namespace matrixfsdp::train

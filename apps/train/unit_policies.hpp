#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/plan/unit_policy.hpp>

namespace matrixfsdp::train {

/// What --unit-policy takes, for the help.
std::string unit_policy_help();

/// Adds policies of single units: each text is NAME:KEY=VALUE,..., its other keys are those of policies.all, or of the
/// texts before it for the same unit. Throws InputError for a text that is not of this form, and for an unknown key or
/// value. Names are the model's, and not checked here.
void add_unit_policies(const std::vector<std::string>& texts, UnitPolicies& policies);

/// "float32" or "bfloat16" of the option `name`; InputError for anything else.
DType parse_wire(const std::string& name, const std::string& value);

/// UnitPolicy::reshard_to of the option `name`: "yes" (0), "no" (1), or a number of ranks from 2 on; InputError for
/// anything else.
std::int64_t parse_reshard(const std::string& name, const std::string& value);

/// Of the policies by unit: every key and value, by name.
nlohmann::json to_json(const UnitPolicies& policies);

}  // namespace matrixfsdp::train

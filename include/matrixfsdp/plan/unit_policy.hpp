#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/model_spec.hpp>

namespace matrixfsdp {

/// What travels and what is computed with; master weights, sums and optimizer state are float32 whatever it says.
struct UnitPolicy {
  /// float32, or bfloat16: weights are rounded once, by their owner, travel as 16-bit words, and every rank computes
  /// with the rounded values (with W = 1 or a replicated plan too, where nothing travels).
  DType param_dtype = DType::float32;
  /// float32, or bfloat16: each rank's gradient is rounded once and travels as 16-bit words; sums are float32, and
  /// travel as such.
  DType reduce_dtype = DType::float32;
  /// Ranks that hold the unit together from forward to backward. 0: the shard group, by its shards alone; 1: each rank
  /// alone, so that backward unshards nothing; more: each so many neighbouring ranks, an even part each besides the
  /// shards, from which backward unshards (a node's ranks, for instance: secondary partition of ZeRO++, Wang et al.
  /// 2023, section 3.2).
  std::int64_t reshard_to = 0;

  /// The same in every field.
  friend bool operator==(const UnitPolicy&, const UnitPolicy&) = default;
};

/// One policy for all units, but for those that have their own.
struct UnitPolicies {
  UnitPolicy all;                             ///< of units that by_unit does not name
  std::map<std::string, UnitPolicy> by_unit;  ///< by the unit's name
};

/// The policy of each unit of `model`. Throws InputError where by_unit has a name that the model does not have (the
/// name, and the units'), and where reshard_to is neither 0 nor a divisor of `group_size`, the ranks of a shard group;
/// and ContractError for a dtype other than float32 and bfloat16.
std::vector<UnitPolicy> resolve(const UnitPolicies& policies, const ModelSpec& model, int group_size);

}  // namespace matrixfsdp

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/optimizer_profile.hpp>
#include <matrixfsdp/plan/plan.hpp>

namespace matrixfsdp {

/// How matrices are given to owners. Each is deterministic.
enum class Policy {
  role,      ///< units in order; the largest role (matrix) of a unit to the lightest rank; loads accumulate
  scope,     ///< the roles of all units together, largest first, to the lightest rank (LPT; Graham 1969)
  cost,      ///< scope where it balances better than role and no unit's owner exceeds the workspace cap, else role
  balanced,  ///< default: bytes and optimizer work together, the gamma of each unit priced, swap refinement
  profile,   ///< balanced, with measured seconds for FLOPs; a rank's share of both is as its measured speed
};

/// How tails lie: packed whole on single ranks (largest first to the lightest), or cut over ranks at norm_block, as
/// evenly as leaves no rank above the level that the heaviest one has anyway.
enum class TailPlacement {
  automatic,  ///< whichever of the two balances better, spread on a tie
  packed,     ///< each tail whole on one rank
  spread,     ///< tails cut over ranks
};

/// What make_plan goes by besides model and W.
struct PlannerOptions {
  Policy policy = Policy::balanced;                ///< how matrices are given to owners
  TailPlacement tails = TailPlacement::automatic;  ///< where tails lie
  OptimizerCost optimizer;                         ///< prices the work and the state of matrices and tails
  /// Of Policy::cost: the largest gamma of a unit that scope may reach, as a multiple of role's.
  double workspace_cap = 2.0;
  std::optional<OptimizerProfile> profile;  ///< of Policy::profile. With another number of ranks: all equally fast
};

/// "role", "scope", "cost", "balanced", "profile". Throws InputError for any other name.
Policy parse_policy(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(Policy policy);

/// Makes the plan: deterministic, the same on every rank and machine, no communication. With Policy::balanced no unit
/// puts two matrices on one rank while W >= the unit's matrices. Spare ranks (fewer matrices than W) own nothing, which
/// is legal. Throws InputError for W < 1, an invalid model (see validate), a workspace cap below 1, or Policy::profile
/// without a profile, with an invalid one, or with one that lacks a matrix of the model; otherwise as step_flops.
///
/// Balance, every policy but Policy::profile: no rank keeps more bytes (with Policy::balanced, nor does more FLOPs per
/// step) than
///   (2 - 1/W) * max(mean over ranks, largest piece that stays whole) + one norm block for each unit with tails
/// which is Graham's bound for giving each piece to the lightest rank (Graham 1966), and the rounding of cuts.
Plan make_plan(const ModelSpec& model, int world_size, const PlannerOptions& options = {});

/// The plan of ddp: everything on every rank. Throws InputError for W < 1 or an invalid model.
Plan make_replicated_plan(const ModelSpec& model, int world_size);

}  // namespace matrixfsdp

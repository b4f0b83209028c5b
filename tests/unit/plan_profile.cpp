#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/optimizer_profile.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "unit/plan_models.hpp"

// Plans from measured times.
namespace matrixfsdp {
namespace {

/// Exactly what ranks of these speeds would have measured: seconds of a matrix are its FLOPs.
OptimizerProfile synthetic(const ModelSpec& model, const std::vector<double>& slowness) {
  std::map<MatrixWork, double> works;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (kind_of(parameter) == ParameterKind::matrix)
        works[matrix_work(parameter)] = 1e-9 * static_cast<double>(step_flops(parameter, {}));
    }
  }
  OptimizerProfile profile;
  profile.world_size = static_cast<int>(slowness.size());
  for (int rank = 0; rank < profile.world_size; ++rank) {
    for (const auto& [work, seconds] : works)
      profile.measured.push_back({rank, work, 10, seconds * slowness[static_cast<std::size_t>(rank)]});
  }
  return profile;
}

PlannerOptions by_profile(const OptimizerProfile& profile) {
  PlannerOptions options;
  options.policy = Policy::profile;
  options.profile = profile;
  return options;
}

TEST(PlanProfile, works_and_ranks_are_taken_apart) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:d4"));
  const std::vector<double> slowness = {1, 2, 1, 1.5};
  const MeasuredCosts costs = measured_costs(synthetic(model, slowness));
  ASSERT_EQ(costs.slowness.size(), 4U);
  for (std::size_t r = 1; r < slowness.size(); ++r)
    EXPECT_NEAR(costs.slowness[r] / costs.slowness[0], slowness[r], 1e-9);
  double product = 1;
  for (const double slow : costs.slowness)
    product *= slow;
  EXPECT_NEAR(product, 1, 1e-9) << "their mean logarithm is 0";
  const ParameterSpec& qkv = model.units[1].parameters[2];
  EXPECT_EQ(matrix_work(qkv).parts, 3);
  EXPECT_NEAR(measured_seconds(costs, qkv) * costs.slowness[0], 1e-9 * static_cast<double>(step_flops(qkv, {})), 1e-12);
}

// Rank 2 and rank 3 have no kind in common, but rank 0 has both.
TEST(PlanProfile, ranks_are_compared_over_others) {
  const MatrixWork square{64, 64, 1};
  const MatrixWork wide{64, 256, 1};
  OptimizerProfile profile;
  profile.world_size = 5;
  profile.measured = {{0, square, 5, 1.0}, {0, wide, 5, 3.0}, {2, square, 5, 2.0}, {3, wide, 5, 3.0}};
  const MeasuredCosts costs = measured_costs(profile);
  EXPECT_NEAR(costs.slowness[2] / costs.slowness[0], 2, 1e-6);
  EXPECT_NEAR(costs.slowness[3] / costs.slowness[0], 1, 1e-6);
  EXPECT_EQ(costs.slowness[1], 1) << "never measured: the mean";
  EXPECT_EQ(costs.slowness[4], 1);
  EXPECT_NEAR(costs.seconds.at(wide) / costs.seconds.at(square), 3, 1e-6);
}

TEST(PlanProfile, a_rank_of_half_the_speed_gets_half_the_work) {
  for (const char* name : {"gpt2:124m", "llama:1b"}) {
    const ModelSpec model = transformer_model(transformer_from_name(name));
    for (const int ranks : {2, 3, 4, 8}) {
      std::vector<double> slowness(static_cast<std::size_t>(ranks), 1.0);
      slowness[1] = 2;
      const Plan plan = make_plan(model, ranks, by_profile(synthetic(model, slowness)));
      EXPECT_EQ(plan.planner, "profile");
      const PlanReport figures = report(model, plan, {});
      double flops = 0;
      double bytes = 0;
      for (const RankLoad& rank : figures.ranks) {
        if (rank.rank == 1) continue;
        flops += static_cast<double>(rank.flops) / (ranks - 1);
        bytes += static_cast<double>(rank.owned_bytes) / (ranks - 1);
      }
      EXPECT_NEAR(static_cast<double>(figures.ranks[1].flops) / flops, 0.5, 0.08) << name << " W = " << ranks;
      EXPECT_NEAR(static_cast<double>(figures.ranks[1].owned_bytes) / bytes, 0.5, 0.03) << name << " W = " << ranks;
      // In time: nearly even.
      const std::vector<double> seconds =
          measured_rank_seconds(model, plan, measured_costs(synthetic(model, slowness)));
      const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / ranks;
      EXPECT_LE(*std::max_element(seconds.begin(), seconds.end()), 1.06 * mean) << name << " W = " << ranks;
    }
  }
}

// Where times are proportional to FLOPs and all are equally fast, measuring changes next to nothing.
TEST(PlanProfile, measured_flops_balance_as_flops_do) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  for (const int ranks : {2, 3, 8}) {
    const Plan plan = make_plan(model, ranks, by_profile(synthetic(model, std::vector<double>(ranks, 1.0))));
    EXPECT_LE(test::over_bound(model, plan), 1.02) << ranks;
  }
}

// FLOPs lie: tall matrices take four times as long as theirs say.
TEST(PlanProfile, times_count_and_flops_do_not) {
  const ModelSpec model = test::blocks(4, 64, 2, 2);
  OptimizerProfile profile = synthetic(model, {1, 1, 1});
  for (MeasuredWork& one : profile.measured)
    one.seconds = one.work.cols > one.work.rows ? 1.0 : 0.1;
  const Plan plan = make_plan(model, 3, by_profile(profile));
  const std::vector<double> seconds = measured_rank_seconds(model, plan, measured_costs(profile));
  // 8 of 1 s on 3 ranks: 3, 3 and 2; 8 of 0.1 s.
  EXPECT_LE(*std::max_element(seconds.begin(), seconds.end()), 3.31);
}

TEST(PlanProfile, ranks_of_another_number_are_equally_fast) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  const Plan four = make_plan(model, 4, by_profile(synthetic(model, {1, 3})));
  const Plan same = make_plan(model, 4, by_profile(synthetic(model, {1, 1})));
  EXPECT_EQ(hash_of(four), hash_of(same));
}

TEST(PlanProfile, what_is_wrong_is_named) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:d4"));
  const OptimizerProfile good = synthetic(model, {1, 1});
  PlannerOptions none;
  none.policy = Policy::profile;
  EXPECT_NE(test::message_of<InputError>([&] { make_plan(model, 2, none); }).find("expected the profile of a run"),
            std::string::npos);
  struct Case {
    void (*damage)(OptimizerProfile&);
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {[](OptimizerProfile& p) { p.world_size = 0; }, {"world_size 0"}},
      {[](OptimizerProfile& p) { p.measured.clear(); }, {"0 measurements"}},
      {[](OptimizerProfile& p) { p.measured[0].rank = 2; }, {"rank 2", "0 to 1"}},
      {[](OptimizerProfile& p) { p.measured[0].steps = 0; }, {"0 steps", "at least 1"}},
      {[](OptimizerProfile& p) { p.measured[0].work.cols = 0; }, {"x 0"}},
      {[](OptimizerProfile& p) { p.measured[0].seconds = 0; }, {"0 seconds", "above 0"}},
      {[](OptimizerProfile& p) { p.measured[0].seconds = NAN; }, {"nan seconds"}},
      {[](OptimizerProfile& p) {
         std::erase_if(p.measured, [](const MeasuredWork& one) { return one.work.parts == 3; });
       },
       {"block.0.attention.qkv", "768 x 256 in 3 parts", "256 x 256 in 1 part"}},
  };
  for (const Case& one : cases) {
    OptimizerProfile profile = good;
    one.damage(profile);
    const std::string message = test::message_of<InputError>([&] { make_plan(model, 2, by_profile(profile)); });
    for (const std::string& word : one.said)
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
  }
}

}  // namespace
}  // namespace matrixfsdp

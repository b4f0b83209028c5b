#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "unit/plan_models.hpp"

// How good the default policy is.
namespace matrixfsdp {
namespace {

using test::blocks;
using test::over_bound;
using test::plan_with;

// The bound of the design, with the root and all tails.
TEST(PlanBalance, memory_of_gpt2_is_close_to_an_even_split) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  for (const int ranks : {4, 8}) {
    const PlanReport figures = report(model, make_plan(model, ranks), {});
    std::int64_t most = 0;
    for (const RankLoad& rank : figures.ranks)
      most = std::max(most, rank.owned_bytes);
    EXPECT_LE(static_cast<double>(most), 1.001 * static_cast<double>(figures.replicated_bytes) / ranks) << ranks;
    EXPECT_LE(figures.imbalance_flops, 1.001) << ranks;
  }
}

// 64 blocks of four h x h and two h x 4h matrices: bytes and work even at once, no rank with two matrices of a block.
TEST(PlanBalance, bytes_and_work_at_once) {
  const ModelSpec model = blocks(64, 4096, 4, 2);
  const Plan plan = make_plan(model, 64);
  const PlanReport figures = report(model, plan, {});
  EXPECT_LE(figures.imbalance_bytes, 1.01);
  EXPECT_LE(figures.imbalance_flops, 1.01);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    std::vector<int> owners;
    for (std::size_t p = 0; p < 6; ++p)
      owners.push_back(plan.owner(u, p));
    std::sort(owners.begin(), owners.end());
    EXPECT_EQ(std::unique(owners.begin(), owners.end()), owners.end()) << u;
    EXPECT_DOUBLE_EQ(figures.gamma[u], 4.0 / 12.0 * 64);
  }
}

// Where max(mean, largest) cannot be reached: matrices weigh 3, 1, 4, 4 in bytes and 60, 20, 39, 39 in work (qkv,
// output, up, down of GPT-2), and so few of them share a rank that some rank must hold a certain pair or triple. The
// figures are the best of all integer packings, by an integer program: over all multisets of matrices on one rank whose
// larger measure is at most T, W multisets that hold every matrix; T the least of all multisets' measures that has a
// solution (bisected with SciPy's milp). That a unit's matrices have distinct ranks is left out: with it nothing is
// better. For all others at W = 48, 64 and 256 the program finds at most 1.02 (llama:70b at 64), for most 1; at 2, 3
// and 8 the mean is the bound.
const std::map<std::pair<std::string, int>, double>& combinatorial_bounds() {
  static const std::map<std::pair<std::string, int>, double> bounds{
      {{"gpt2:350m", 48}, 1.0812},  // 72 of at least 39 on 48 ranks: a pair of them
      {{"gpt2:350m", 64}, 1.4416},  // 72 of at least 39 on 64 ranks: a pair of them
      {{"gpt2:774m", 48}, 1.1636},
      {{"gpt2:774m", 64}, 1.1152},  // 44 pairs among 72 of 39 and 36 of 60: one of both kinds
      {{"gpt2:1.5b", 64}, 1.1631},
      {{"llama:8b", 48}, 1.0785},
      {{"llama:8b", 64}, 1.0414},
      {{"llama:70b", 48}, 1.0398},
  };
  return bounds;
}

TEST(PlanBalance, catalogue_within_three_percent_of_the_lower_bound) {
  for (const char* name : {"gpt2:124m", "gpt2:350m", "gpt2:774m", "gpt2:1.5b", "llama:1b", "llama:8b", "llama:70b"}) {
    const ModelSpec model = transformer_model(transformer_from_name(name));
    for (const int ranks : {2, 3, 8, 48, 64, 256}) {
      const PlanReport figures = report(model, make_plan(model, ranks), {});
      const double bytes = figures.imbalance_bytes / figures.lower_bound_bytes;
      const double flops = figures.imbalance_flops / figures.lower_bound_flops;
      fmt::print("  {:<10} W = {:<4} bytes {:.4f} (bound {:.4f})  work {:.4f} (bound {:.4f})  largest gamma {:.2f}\n",
                 name, ranks, figures.imbalance_bytes, figures.lower_bound_bytes, figures.imbalance_flops,
                 figures.lower_bound_flops, *std::max_element(figures.gamma.begin(), figures.gamma.end()));
      const auto known = combinatorial_bounds().find({name, ranks});
      EXPECT_LE(std::max(bytes, flops), known == combinatorial_bounds().end() ? 1.03 : known->second)
          << name << " W = " << ranks;
    }
  }
}

// Llama 1B as released has a tied head; with one of its own, tails are a third of the model.
TEST(PlanBalance, an_untied_head_is_evened_out) {
  TransformerShape shape = transformer_from_name("llama:1b");
  shape.tied_head = false;
  const ModelSpec model = transformer_model(shape);
  for (const int ranks : {2, 3, 8, 48, 64, 256})
    EXPECT_LE(test::over_bound(model, make_plan(model, ranks)), 1.03) << ranks;
}

// Measured by mfsdp-bench planner; here what bounds the time: the plan of 100,000 matrices (a mixture of experts) on
// 16,384 ranks is made at all, in memory that grows with matrices, and with ranks times units.
TEST(PlanBalance, a_hundred_thousand_matrices) {
  ModelSpec model;
  for (int block = 0; block < 100; ++block) {
    UnitSpec unit{fmt::format("block.{}", block), {}, false};
    for (int m = 0; m < 1000; ++m)
      unit.parameters.push_back(test::parameter(fmt::format("{}.{}", unit.name, m), {64, m % 3 < 2 ? 64 : 256}));
    model.units.push_back(std::move(unit));
  }
  const Plan plan = make_plan(model, 16384);
  std::vector<std::int64_t> bytes(16384, 0);
  std::int64_t total = 0;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    std::vector<bool> used(bytes.size(), false);
    for (const Segment& segment : plan.units[u].weights.segments) {
      const auto rank = static_cast<std::size_t>(segment.rank);
      EXPECT_FALSE(used[rank]) << "two matrices of a unit";
      used[rank] = true;
      bytes[rank] += segment.elements.size();
      total += segment.elements.size();
    }
  }
  // A matrix is one or four times 4096 elements, and the mean rank has 12.2 times 4096: nothing is better than 13.
  EXPECT_EQ(total, 100 * (667 * 4096 + 333 * 16384));
  EXPECT_EQ(*std::max_element(bytes.begin(), bytes.end()), 13 * 4096);
}

TEST(PlanBalance, the_default_is_no_worse_than_the_published_policies) {
  for (const char* name : {"gpt2:124m", "gpt2:774m", "llama:1b", "llama:8b"}) {
    const ModelSpec model = transformer_model(transformer_from_name(name));
    for (const int ranks : {2, 3, 8, 48, 64}) {
      const double balanced = over_bound(model, plan_with(model, ranks, Policy::balanced));
      for (const Policy other : {Policy::role, Policy::scope, Policy::cost})
        EXPECT_LE(balanced, over_bound(model, plan_with(model, ranks, other)) + 0.005)
            << name << " W = " << ranks << " " << name_of(other);
    }
  }
}

/// Least possible max of both measures over all placements with distinct ranks within a unit.
class BruteForce {
 public:
  BruteForce(const ModelSpec& model, int ranks)
      : bytes_(static_cast<std::size_t>(ranks)), flops_(static_cast<std::size_t>(ranks)), used_(model.units.size()) {
    for (std::size_t u = 0; u < model.units.size(); ++u) {
      used_[u].assign(static_cast<std::size_t>(ranks), false);
      for (const ParameterSpec& spec : model.units[u].parameters) {
        const double bytes = static_cast<double>(resident_bytes(spec, element_count(spec.shape), {}));
        const double flops = static_cast<double>(step_flops(spec, {}));
        items_.push_back({u, bytes, flops});
        bytes_bound_ = std::max(bytes_bound_, bytes);
        flops_bound_ = std::max(flops_bound_, flops);
        bytes_total_ += bytes;
        flops_total_ += flops;
      }
    }
    bytes_bound_ = std::max(bytes_bound_, bytes_total_ / ranks);
    flops_bound_ = std::max(flops_bound_, flops_total_ / ranks);
  }

  double best() {
    place(0, 0);
    return best_;
  }

 private:
  struct Matrix {
    std::size_t unit;
    double bytes;
    double flops;
  };

  void place(std::size_t next, double worst) {
    if (worst >= best_) return;
    if (next == items_.size()) {
      best_ = worst;
      return;
    }
    const Matrix& matrix = items_[next];
    for (std::size_t rank = 0; rank < bytes_.size(); ++rank) {
      if (used_[matrix.unit][rank]) continue;
      used_[matrix.unit][rank] = true;
      bytes_[rank] += matrix.bytes;
      flops_[rank] += matrix.flops;
      place(next + 1, std::max({worst, bytes_[rank] / bytes_bound_, flops_[rank] / flops_bound_}));
      bytes_[rank] -= matrix.bytes;
      flops_[rank] -= matrix.flops;
      used_[matrix.unit][rank] = false;
    }
  }

  std::vector<Matrix> items_;
  std::vector<double> bytes_;
  std::vector<double> flops_;
  std::vector<std::vector<bool>> used_;
  double bytes_bound_ = 0;
  double flops_bound_ = 0;
  double bytes_total_ = 0;
  double flops_total_ = 0;
  double best_ = 1e300;
};

TEST(PlanBalance, small_models_against_every_placement) {
  double sum = 0;
  int models = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const CounterRandom random(seed, stream_of("brute force"));
    std::uint64_t index = 0;
    const int ranks = 2 + static_cast<int>(random.below(index++, 2));
    ModelSpec model;
    for (int u = 0; u < 4; ++u) {
      UnitSpec unit{fmt::format("u{}", u), {}, false};
      for (int p = 0; p < ranks; ++p) {
        const auto extent = [&] { return static_cast<std::int64_t>(4 + random.below(index++, 60)); };
        unit.parameters.push_back(test::parameter(fmt::format("{}.p{}", unit.name, p), {extent(), extent()}));
      }
      model.units.push_back(std::move(unit));
    }
    const double best = BruteForce(model, ranks).best();
    const double reached = over_bound(model, make_plan(model, ranks));
    EXPECT_GE(reached, best - 1e-9) << "the oracle is wrong, seed " << seed;
    EXPECT_LE(reached, 1.10 * best) << "seed " << seed;
    sum += reached / best;
    ++models;
  }
  fmt::print("  reached over best possible: {:.4f} on average\n", sum / models);
  EXPECT_LE(sum / models, 1.02);
}

// With more matrices in a block than ranks, gamma is a choice: 3 + 4 of 12 on one of two ranks is the least there is.
TEST(PlanBalance, gamma_is_not_given_away_for_balance) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  const PlanReport two = report(model, make_plan(model, 2), {});
  EXPECT_LE(*std::max_element(two.gamma.begin(), two.gamma.end()), 7.0 / 6.0 * 1.002);
  EXPECT_LE(two.imbalance_bytes, 1.001);
  EXPECT_LE(two.imbalance_flops, 1.01);
  const PlanReport three = report(model, make_plan(model, 3), {});
  EXPECT_LE(*std::max_element(three.gamma.begin(), three.gamma.end()), 1.005);  // 4, 4 and 3 + 1
}

// One block of a wide matrix (4 in bytes, 12.4 in work) and four squares (1 and 5.3) on two ranks. 4 | 1111 is even in
// bytes and 1.26 in work; 4 1 | 111 has 1.25 as its worst. A gamma of 1.25 for so little is a bad bargain.
TEST(PlanBalance, gamma_has_a_price) {
  const ModelSpec model = blocks(1, 64, 4, 1);
  const PlanReport figures = report(model, make_plan(model, 2), {});
  EXPECT_DOUBLE_EQ(figures.gamma[0], 1.0);
  EXPECT_NEAR(figures.imbalance_flops, 1.26, 0.01);
  // Two such blocks take turns.
  const ModelSpec two = blocks(2, 64, 4, 1);
  EXPECT_LE(over_bound(two, make_plan(two, 2)), 1.001);
}

// Policy::cost takes scope only where it is better and no unit pays more than the cap.
TEST(PlanBalance, cost_chooses_between_role_and_scope) {
  int took_scope = 0;
  int took_role = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const ModelSpec model = test::random_model(seed);
    for (const double cap : {1.0, 1.2, 2.0}) {
      PlannerOptions options;
      options.workspace_cap = cap;
      options.policy = Policy::cost;
      const Plan cost = make_plan(model, 4, options);
      options.policy = Policy::role;
      const Plan role = make_plan(model, 4, options);
      options.policy = Policy::scope;
      const Plan scope = make_plan(model, 4, options);
      bool within = true;
      for (std::size_t u = 0; u < model.units.size(); ++u)
        within = within && scope.units[u].gamma <= cap * role.units[u].gamma;
      const bool better = over_bound(model, scope) < over_bound(model, role) * (1 - 1e-12);
      const bool wants_scope = better && within;
      EXPECT_EQ(hash_of(cost), hash_of(wants_scope ? scope : role)) << "seed " << seed << " cap " << cap;
      if (hash_of(scope) != hash_of(role)) ++(wants_scope ? took_scope : took_role);
    }
  }
  EXPECT_GT(took_scope, 0);
  EXPECT_GT(took_role, 0);
}

TEST(PlanBalance, tail_placement) {
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  const double automatic = over_bound(model, plan_with(model, 8, Policy::balanced));
  const double spread = over_bound(model, plan_with(model, 8, Policy::balanced, TailPlacement::spread));
  const double packed = over_bound(model, plan_with(model, 8, Policy::balanced, TailPlacement::packed));
  EXPECT_DOUBLE_EQ(automatic, spread);
  EXPECT_GT(packed, 2.5) << "the embedding is most of a rank's tails";
  // Tails of less than a block each: only packing them can level these loads.
  ModelSpec small;
  small.units.push_back({"u", {}, false});
  for (const std::int64_t size : {4000, 3000, 2000, 1000, 1001, 2001, 3001, 4001})
    small.units[0].parameters.push_back(test::parameter(fmt::format("p{}", size), {size}));
  EXPECT_GT(over_bound(small, plan_with(small, 4, Policy::balanced, TailPlacement::spread)), 1.1);
  EXPECT_LT(over_bound(small, plan_with(small, 4, Policy::balanced, TailPlacement::packed)), 1.001);
  EXPECT_LT(over_bound(small, plan_with(small, 4, Policy::balanced)), 1.001);
}

// The matrix makes one rank the heaviest by far. Any other has room for the whole table; that they share it evenly
// keeps its gamma low.
TEST(PlanBalance, tails_are_even_below_the_heaviest_rank) {
  ModelSpec model = test::one_unit({test::parameter("w", {512, 512})});
  model.units.push_back({"root", {test::embedding("table", {12, 4096})}, true});
  const Plan plan = make_plan(model, 4);
  const std::vector<Interval>& tails = plan.units[1].weights.tails;
  EXPECT_TRUE(tails[0].empty());
  for (int rank = 1; rank < 4; ++rank)
    EXPECT_EQ(tails[static_cast<std::size_t>(rank)].size(), 4 * 4096) << rank;
  EXPECT_DOUBLE_EQ(plan.units[1].gamma, 4.0 / 3.0);
}

// Matrices go around a packed embedding that is most of the model.
TEST(PlanBalance, large_packed_tails_come_first) {
  ModelSpec model = blocks(6, 64, 4, 0);
  model.units.push_back({"root", {test::embedding("table", {24 * 64, 64})}, true});
  // 24 matrices of 12 * 4096 bytes and a table of 16 * 24 * 4096: 672 units of 4096 bytes over 4 ranks.
  const Plan plan = plan_with(model, 4, Policy::balanced, TailPlacement::packed);
  const PlanReport figures = report(model, plan, {});
  for (const RankLoad& rank : figures.ranks)
    EXPECT_EQ(rank.matrices, 6) << "one matrix of each block, as W >= 4 demands";
  const PlanReport scope = report(model, plan_with(model, 4, Policy::scope, TailPlacement::packed), {});
  EXPECT_EQ(scope.ranks[0].owned_bytes, 16 * 24 * 4096) << "the table's rank gets nothing else";
  EXPECT_EQ(scope.ranks[1].matrices, 8);
}

// AdamW for everything: bytes and work are proportional to elements, so one measure decides.
TEST(PlanBalance, adamw_only) {
  PlannerOptions options;
  options.optimizer.matrices = MatrixOptimizer::adamw;
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  for (const int ranks : {3, 8})
    EXPECT_LE(over_bound(model, make_plan(model, ranks, options), options.optimizer), 1.001) << ranks;
}

}  // namespace
}  // namespace matrixfsdp

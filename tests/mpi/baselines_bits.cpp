#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/agree.hpp"
#include "support/equal_bits.hpp"
#include "support/gradient_kinds.hpp"
#include "support/parts_of_world.hpp"
#include "support/shapes_model.hpp"

// Every strategy is the same computation: the bits are those of matrix-fsdp on one rank. fsdp2 with Muon multiplies
// blocks of rows: equal but for rounding.
namespace matrixfsdp {
namespace {

using testing::GradientKind;
using testing::gradients_of;
using testing::SyntheticOptions;
using testing::SyntheticRun;
using testing::SyntheticStep;
using testing::Training;
using testing::TrainingResult;
using testing::world;

using Case = std::tuple<StrategyKind, MatrixOptimizer>;

std::string name_of_case(const ::testing::TestParamInfo<Case>& info) {
  const auto [kind, optimizer] = info.param;
  std::string name = fmt::format("{}_{}", name_of(kind), name_of(optimizer));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool same_bits(const Case& given) {
  const auto [kind, optimizer] = given;
  return kind != StrategyKind::fsdp2 || optimizer != MatrixOptimizer::muon || world().size() == 1;
}

/// CASES 68: every strategy with every optimizer that it can run, at every number of ranks
/// (tests/areas/baselines.cmake).
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const StrategyKind kind : strategy_kinds()) {
    for (const MatrixOptimizer optimizer : matrix_optimizers()) {
      if (supports(kind, optimizer)) cases.emplace_back(kind, optimizer);
    }
  }
  return cases;
}

/// Roots and bases are refreshed within the few steps of a test.
void refresh_often(RoutingOptions& options, std::int64_t frequency) {
  options.shampoo.preconditioner.frequency = options.soap.preconditioner.frequency = frequency;
  options.shampoo.weight_decay = options.soap.weight_decay = 0.1;
}

class BaselineBits : public ::testing::TestWithParam<Case> {};

/// All but `spike`: where a gradient's square is not finite AdamW leaves out a norm block, of which other ranks may
/// have rows.
constexpr std::array kinds{GradientKind::zero,    GradientKind::tiny,       GradientKind::ordinary,
                           GradientKind::missing, GradientKind::non_finite, GradientKind::ordinary,
                           GradientKind::huge,    GradientKind::ordinary};

/// The most that a value of this rank differs from `whole`.
double difference(SyntheticRun& run, const testing::WholeTensors& whole) {
  double most = 0;
  for (const ParameterView& view : run.model().resident()) {
    const std::vector<float>& expected = whole.at(view.spec->name);
    for (std::int64_t i = 0; i < view.elements.size(); ++i) {
      const double found = view.weight(static_cast<std::size_t>(i));
      most = std::max(
          most, std::abs(found - static_cast<double>(expected[static_cast<std::size_t>(view.elements.begin + i)])));
    }
  }
  return most;
}

// CASES 1, 2, 4, 5, 12, 14, 15, 16, 20, 30, 34: all shapes, matrices with fewer rows than ranks, fused along both axes.
TEST_P(BaselineBits, every_shape_steps_as_on_one_rank) {
  const auto [kind, optimizer] = GetParam();
  const ModelSpec spec = testing::shapes_model();
  SyntheticOptions options;
  options.micro_batches = 2 * world().size();
  options.max_norm = 0.75;
  options.optimizer.matrices = optimizer;
  refresh_often(options.optimizer, 2);
  Communicator alone = testing::alone();
  SyntheticRun expected(alone, spec, make_plan(spec, 1), options);
  options.strategy = kind;
  options.optimizer.workers = 3;
  SyntheticRun run(world(), spec, make_strategy_plan(kind, spec, world().size()), options);
  std::uint64_t seed = 1;
  for (const GradientKind gradients : kinds) {
    SCOPED_TRACE(fmt::format("{} gradients", testing::name_of(gradients)));
    const auto rule = gradients_of(gradients, seed++, options.micro_batches);
    const SyntheticStep one = expected.step(rule);
    const SyntheticStep step = run.step(rule);
    EXPECT_EQ(step.finite, one.finite);
    const std::int64_t copies = kind == StrategyKind::ddp || kind == StrategyKind::fsdp2_gather ? world().size() : 1;
    EXPECT_EQ(testing::sum_over_ranks(step.taken.matrices_orthogonalized), copies * one.taken.matrices_orthogonalized);
    if (same_bits(GetParam())) {
      if (one.finite) {
        EXPECT_EQ(step.norm, one.norm);
      }
      ASSERT_EQ(testing::first_of_all_ranks(run.difference_from(expected.tensors())), "");
    } else {
      // Rounding, which the steps of singular matrices enlarge, of updates of size 0.02.
      ASSERT_LT(difference(run, expected.tensors()), 2e-3);
    }
  }
}

Training training_for(TransformerStyle style, MatrixOptimizer optimizer) {
  TransformerShape shape{
      style, 2, 36, 6, style == TransformerStyle::gpt2 ? 6 : 3, 52, 9, 173, style == TransformerStyle::gpt2};
  Training training = testing::training_of(shape);
  training.optimizer.matrices = optimizer;
  refresh_often(training.optimizer, 1);
  training.optimizer.muon.weight_decay = 0.1;
  training.optimizer.adamw.weight_decay = 0.1;
  training.optimizer.adamw.learning_rate = 3e-3;
  training.max_norm = 0.5;
  return training;
}

// CASES 10, 26: the trajectory of one rank, with clipping and decay.
TEST_P(BaselineBits, transformers_train_as_on_one_rank) {
  const auto [kind, optimizer] = GetParam();
  for (const TransformerStyle style : {TransformerStyle::gpt2, TransformerStyle::llama}) {
    Training training = training_for(style, optimizer);
    Communicator alone = testing::alone();
    const TrainingResult expected = testing::run_training(alone, training, make_plan(training.spec, 1), 3);
    training.strategy = kind;
    for (const int prefetch : {0, 1}) {
      training.prefetch = prefetch;
      const TrainingResult found =
          testing::run_training(world(), training, make_strategy_plan(kind, training.spec, world().size()), 3);
      if (same_bits(GetParam())) {
        EXPECT_TRUE(testing::equal_bits(found, expected)) << name_of(style) << ", prefetch " << prefetch;
        continue;
      }
      for (std::size_t s = 0; s < found.steps.size(); ++s) {
        EXPECT_NEAR(found.steps[s].loss, expected.steps[s].loss, 2e-4);
        EXPECT_NEAR(found.steps[s].norm, expected.steps[s].norm, 2e-3 * expected.steps[s].norm);
      }
    }
  }
}

// bfloat16 is rounded by the owner of an element, whoever that is.
TEST_P(BaselineBits, bfloat16_rounds_as_on_one_rank) {
  const auto [kind, optimizer] = GetParam();
  if (kind == StrategyKind::zero1_owner || !same_bits(GetParam())) {
    StrategyOptions options;
    options.sharding.policies.all.param_dtype = DType::bfloat16;
    if (kind == StrategyKind::zero1_owner) {
      EXPECT_THROW(check_strategy(kind, world().size(), testing::shapes_model(), options.sharding), InputError);
    }
    return;
  }
  Training training = training_for(TransformerStyle::llama, optimizer);
  training.policies.all = {DType::bfloat16, DType::bfloat16};
  Communicator alone = testing::alone();
  const TrainingResult expected = testing::run_training(alone, training, make_plan(training.spec, 1), 3);
  training.strategy = kind;
  EXPECT_TRUE(testing::equal_bits(
      testing::run_training(world(), training, make_strategy_plan(kind, training.spec, world().size()), 3), expected));
}

INSTANTIATE_TEST_SUITE_P(strategies, BaselineBits, ::testing::ValuesIn(all_cases()), name_of_case);

}  // namespace
}  // namespace matrixfsdp

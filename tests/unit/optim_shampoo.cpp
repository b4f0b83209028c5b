#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/optim/shampoo.hpp>

#include "factored_fixture.hpp"
#include "optim_fixture.hpp"
#include "src/optim/eigenvectors.hpp"
#include "support/matrices.hpp"
#include "support/reference_factored.hpp"

namespace matrixfsdp {
namespace {

using reference::Dense;
using test::dense;
using test::parameter;
using test::Parameters;
using test::state_of;
using test::Strided;

reference::ShampooSettings settings_of(const ShampooOptions& options) {
  auto settings = test::common_settings<reference::ShampooSettings>(options);
  settings.beta3 = options.beta3 == -1.0 ? options.beta1 : options.beta3;
  settings.start = options.start_step == -1 ? settings.frequency : static_cast<int>(options.start_step);
  settings.grafting = static_cast<reference::GraftedNorm>(options.preconditioner.grafting);
  settings.grafting_beta2 = options.grafting_beta2;
  settings.grafting_epsilon = options.grafting_epsilon;
  return settings;
}

/// Steps `spec` and one reference for each of its blocks, and compares all weights.
void compare(const ParameterSpec& spec, const ShampooOptions& options, int steps = 12) {
  SCOPED_TRACE(spec.name);
  Parameters parameters;
  const ParameterView view = parameters.add(spec, ParameterKind::matrix);
  const auto blocks = preconditioned_blocks(*view.spec, MatrixOptimizer::shampoo, options.preconditioner);
  std::vector<reference::Shampoo> references;
  for (const MatrixPart& block : blocks)
    references.emplace_back(settings_of(options), dense(view.weight, block));
  Shampoo shampoo(parameters.views(), options);
  for (int step = 1; step <= steps; ++step) {
    parameters.draw_gradients(static_cast<std::uint64_t>(100 + step));
    EXPECT_TRUE(shampoo.step({1.0, 1.0, step}).failed.empty());
    for (std::size_t b = 0; b < blocks.size(); ++b)
      references[b].step(dense(view.gradient, blocks[b]));
  }
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    EXPECT_LE(reference::relative_distance(dense(view.weight, blocks[b]), references[b].weight), 2e-4) << b;
  }
}

/// Factors have full rank and a moderate condition when the first root is made: float32 can follow.
ShampooOptions moderate() {
  ShampooOptions options;
  options.learning_rate = 0.1;
  options.epsilon = 1e-3;
  options.preconditioner.frequency = 2;
  return options;
}

TEST(Shampoo, FollowsTheReference) {
  for (const Grafting grafting : {Grafting::none, Grafting::sgd, Grafting::adam}) {
    for (const double beta2 : {0.95, 1.0}) {
      SCOPED_TRACE(::testing::Message() << name_of(grafting) << ", beta2 " << beta2);
      ShampooOptions options = moderate();
      options.preconditioner.grafting = grafting;
      options.beta2 = beta2;
      options.weight_decay = 0.25;
      compare(parameter("square", {9, 9}), options);
      compare(parameter("wide", {5, 11}), options);
      compare(parameter("tall", {11, 5}), options);
    }
  }
}

TEST(Shampoo, FollowsTheReferenceWithItsOtherOptions) {
  ShampooOptions options = moderate();
  options.beta1 = 0.0;
  compare(parameter("no_average", {6, 7}), options);
  options = moderate();
  options.beta3 = 0.5;
  compare(parameter("beta3", {6, 7}), options);
  options = moderate();
  options.bias_correction = false;
  compare(parameter("not_corrected", {6, 7}), options);
  options = moderate();
  options.preconditioner.frequency = 3;
  options.start_step = 5;
  compare(parameter("start", {6, 7}), options);
  options = moderate();
  options.preconditioner.grafting = Grafting::none;
  options.preconditioner.frequency = 5;
  compare(parameter("averages_first", {6, 7}), options, 4);
}

// CASES 4 and 20: vectors as matrices, odd extents.
TEST(Shampoo, FollowsTheReferenceAtTheEdges) {
  for (const Shape& shape : {Shape{1, 9}, {9, 1}, {1, 1}, {33, 17}})
    compare(parameter("edge", shape), moderate(), 6);
}

// CASES 14 and 15: blocks of a fused parameter, batches, and tiles of a large one have factors of their own.
TEST(Shampoo, BlocksHaveFactorsOfTheirOwn) {
  compare(test::fused("rows", {12, 4}, 0, {8, 2, 2}), moderate());
  compare(test::fused("cols", {4, 12}, 1, {5, 7}), moderate());
  compare(parameter("batch", {3, 4, 5}), moderate());
  ShampooOptions options = moderate();
  options.preconditioner.block_size = 4;
  compare(parameter("tiles", {7, 10}), options);
  compare(test::fused("tiles_of_blocks", {6, 10}, 1, {3, 7}), options);
}

TEST(Shampoo, ScalesGradientLearningRateAndDecayAsAsked) {
  const ShampooOptions options = moderate();
  test::expect_scaled_as_asked<Shampoo, reference::Shampoo>(options, settings_of(options), 2e-4);
}

linalg::EigenResult fails_single(MatrixView<float> a, const TensorView<float>& /*values*/,
                                 const linalg::DecompositionWorkspace<float>& /*workspace*/) {
  return {linalg::EigenResult::Status::not_converged, a.rows, 32, 1};
}
linalg::EigenResult fails_double(MatrixView<double> a, const TensorView<double>& /*values*/,
                                 const linalg::DecompositionWorkspace<double>& /*workspace*/) {
  return {linalg::EigenResult::Status::not_converged, a.rows, 64, 2};
}

struct RootCase {
  static constexpr std::int64_t extent = 7;
  Dense matrix = [] {
    const Dense x = reference::gaussian(extent, 20, 3);
    return reference::multiply(x, reference::transpose(x));
  }();
  Strided<float> stored{matrix};
  Strided<float> root{reference::identity(extent)};
  Strided<float> square{extent, extent};
  Tensor<float> values = make_tensor<float>("values", extent);
  linalg::DecompositionWorkspace<float> workspace{linalg::DecompositionScratch::for_eigenvectors(extent)};

  linalg::EigenResult run(const detail::Decompositions& decompositions) const {
    return detail::inverse_fourth_root(stored.view(), 0.5, 1e-6, root.view(), square.view(), values, workspace,
                                       decompositions);
  }
  [[nodiscard]] Dense expected() const {
    return reference::inverse_fourth_root(reference::combine(0.5, matrix, 0.0, matrix), 1e-6);
  }
};

TEST(ShampooRoot, IsTheInverseFourthRoot) {
  const RootCase root;
  EXPECT_TRUE(root.run({}).ok());
  EXPECT_LE(reference::relative_distance(root.root.dense(), root.expected()), 1e-5);
}

TEST(ShampooRoot, IsTriedAgainInDouble) {
  const RootCase root;
  EXPECT_TRUE(root.run({&fails_single, &linalg::eigenvectors<double>}).ok());
  EXPECT_LE(reference::relative_distance(root.root.dense(), root.expected()), 1e-6);
}

TEST(ShampooRoot, StaysWhereBothFail) {
  const RootCase root;
  const std::string before = root.root.bits();
  const linalg::EigenResult result = root.run({&fails_single, &fails_double});
  EXPECT_EQ(result.status, linalg::EigenResult::Status::not_converged);
  EXPECT_EQ(result.bits, 64);
  EXPECT_EQ(root.root.bits(), before);
}

// A covariance that rounding has made indefinite: its eigenvalues are shifted, and the root is finite.
TEST(ShampooRoot, OfAnIndefiniteMatrixIsFinite) {
  Dense matrix = reference::identity(2);
  matrix(1, 1) = -0.5;
  const Strided<float> stored(matrix);
  const Strided<float> root(2, 2);
  const Strided<float> square(2, 2);
  const linalg::DecompositionWorkspace<float> workspace(linalg::DecompositionScratch::for_eigenvectors(2));
  ASSERT_TRUE(detail::inverse_fourth_root(stored.view(), 1.0, 0x1p-8, root.view(), square.view(),
                                          make_tensor<float>("values", 2), workspace)
                  .ok());
  // Eigenvalues are 1 + 2^-8 and -1/2 + 2^-8; both are lifted by 1/2.
  EXPECT_NEAR(root(1, 1), std::pow(0x1p-8, -0.25), 1e-4);
  EXPECT_NEAR(root(0, 0), std::pow(1.5 + 0x1p-8, -0.25), 1e-6);
  EXPECT_EQ(root(0, 1), 0.0F);
}

// A factor without a root: three refreshes go on with the old roots, the fourth fails, and a good one begins anew.
TEST(Shampoo, FourthFailedRefreshInARowFailsTheMatrix) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {4, 6}), ParameterKind::matrix);
  ShampooOptions options = moderate();
  options.preconditioner.frequency = 1;
  Shampoo shampoo(parameters.views(), options);
  shampoo.step({1.0, 1.0, 1});
  const TensorView<float> factor = state_of(shampoo, "left_factor");
  const std::vector<float> good = test::values_of(factor);
  factor.data()[0] = std::nanf("");
  const std::string root = test::bits_of(state_of(shampoo, "left_root"));
  for (int step = 2; step <= 4; ++step) {
    EXPECT_TRUE(shampoo.step({1.0, 1.0, step}).failed.empty()) << step;
    EXPECT_EQ(test::bits_of(state_of(shampoo, "left_root")), root);
  }
  const std::string weight = test::bits_of(view.weight);
  const std::string momentum = test::bits_of(state_of(shampoo, "momentum"));
  EXPECT_EQ(shampoo.step({1.0, 1.0, 5}).failed, std::vector<std::string>{"w"});
  EXPECT_EQ(test::bits_of(view.weight), weight);
  EXPECT_EQ(test::bits_of(state_of(shampoo, "momentum")), momentum);
  EXPECT_EQ(state_of(shampoo, "counters").data()[1], 4.0F);
  for (std::size_t i = 0; i < good.size(); ++i)
    factor.data()[i] = good[i];
  EXPECT_TRUE(shampoo.step({1.0, 1.0, 6}).failed.empty());
  EXPECT_EQ(state_of(shampoo, "counters").data()[1], 0.0F);
  EXPECT_NE(test::bits_of(state_of(shampoo, "left_root")), root);
}

// A sum of factors that would leave float32 fails before anything has changed.
TEST(Shampoo, SumThatWouldOverflowFails) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {2, 2}), ParameterKind::matrix);
  ShampooOptions options = moderate();
  options.beta2 = 1.0;
  Shampoo shampoo(parameters.views(), options);
  for (int i = 0; i < 4; ++i)
    view.gradient.data()[i] = 8e18F;  // the squares sum to 2.56e38
  EXPECT_TRUE(shampoo.step({1.0, 1.0, 1}).failed.empty());
  const std::string factor = test::bits_of(state_of(shampoo, "left_factor"));
  EXPECT_EQ(shampoo.step({1.0, 1.0, 2}).failed, std::vector<std::string>{"w"});
  EXPECT_EQ(test::bits_of(state_of(shampoo, "left_factor")), factor);
}

TEST(Shampoo, OptionsAreChecked) {
  constexpr auto make = &test::make_with<Shampoo, ShampooOptions>;
  EXPECT_NO_THROW(make([](ShampooOptions&) {}));
  EXPECT_NO_THROW(make([](ShampooOptions& o) { o.beta2 = 1.0; }));
  EXPECT_THROW(make([](ShampooOptions& o) { o.learning_rate = -1.0; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.weight_decay = std::nan(""); }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.beta1 = 1.0; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.beta2 = 1.5; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.beta3 = -0.5; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.epsilon = 0.0; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.grafting_beta2 = 1.0; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.grafting_epsilon = 1e-60; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.start_step = 9; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.preconditioner.frequency = 0; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.preconditioner.block_size = 0; }), InputError);
  EXPECT_THROW(make([](ShampooOptions& o) { o.preconditioner.largest_dimension = 1 << 20; }), InputError);
}

}  // namespace
}  // namespace matrixfsdp

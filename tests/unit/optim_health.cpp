#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/optim/health.hpp>
#include <matrixfsdp/optim/routing.hpp>

#include "optim_fixture.hpp"
#include "support/count_allocations.hpp"
#include "support/reference_linalg.hpp"

namespace matrixfsdp {
namespace {

using reference::Dense;
using test::bits_of;
using test::parameter;
using test::Parameters;

Dense dense(const TensorView<float>& values, const MatrixPart& part) {
  const MatrixView<float> matrix = part_view(values, part);
  Dense result(part.rows, part.cols);
  for (std::int64_t i = 0; i < part.rows; ++i) {
    for (std::int64_t j = 0; j < part.cols; ++j)
      result(i, j) = static_cast<double>(matrix(i, j));
  }
  return result;
}

/// All extents are at most health_steps, so that the estimates are exact.
Parameters model() {
  Parameters parameters;
  parameters.add(parameter("table", {20, 6}), ParameterKind::tail);
  parameters.add(parameter("wide", {6, 30}), ParameterKind::matrix);
  parameters.add(test::fused("qkv", {30, 8}, 0, {14, 8, 8}), ParameterKind::matrix);
  parameters.add(parameter("tall", {40, 12}), ParameterKind::matrix);
  return parameters;
}

void expect_figures(const MatrixFigures& found, const Dense& matrix, const std::string& what) {
  const std::vector<double> sigma = reference::svd(matrix).sigma;
  const double largest = *std::max_element(sigma.begin(), sigma.end());
  EXPECT_NEAR(found.norm, reference::norm(matrix), 1e-12 * found.norm) << what;
  EXPECT_NEAR(found.largest, largest, 1e-9 * largest) << what;
  EXPECT_NEAR(found.smallest, *std::min_element(sigma.begin(), sigma.end()), 1e-9 * largest) << what;
  EXPECT_EQ(found.non_finite, 0) << what;
}

/// ||O O^T - I||_F / sqrt(m) on the smaller side.
double residual_of(const Dense& o) {
  Dense gram = o.rows <= o.cols ? reference::multiply(o, reference::transpose(o))
                                : reference::multiply(reference::transpose(o), o);
  for (std::int64_t i = 0; i < gram.rows; ++i)
    gram(i, i) -= 1;
  return reference::norm(gram) / std::sqrt(static_cast<double>(gram.rows));
}

// With a learning rate of 1, scale 1 and weights of zero, the weights after the step are minus the update.
TEST(Health, figures_are_those_of_the_slow_reference) {
  Parameters parameters = model();
  RoutingOptions options;
  options.muon.learning_rate = 1;
  options.muon.scale = ScaleRule::none;
  const auto optimizer = make_optimizer(parameters.views(), options);
  HealthProbe probe(optimizer->views());
  ASSERT_EQ(probe.parts().size(), 5U);
  for (std::int64_t step = 1; step <= 2; ++step) {
    for (const ParameterView& view : parameters.views()) {
      if (step == 2) test::fill(view.weight, 0.0F);
    }
    std::vector<Dense> weights;
    for (const ParameterView& view : parameters.views()) {
      if (view.kind != ParameterKind::matrix) continue;
      for (const MatrixPart& part : matrix_parts(*view.spec))
        weights.push_back(dense(view.weight, part));
    }
    probe.begin_step();
    optimizer->step({1.0, 1.0, step, &probe});
    std::size_t place = 0;
    for (const ParameterView& view : parameters.views()) {
      if (view.kind != ParameterKind::matrix) continue;
      for (const MatrixPart& part : matrix_parts(*view.spec)) {
        const MatrixHealth& health = probe.parts()[place];
        const std::string what = view.spec->name + " " + part.name;
        expect_figures(health.gradient, dense(view.gradient, part), what + " gradient");
        if (step == 1) expect_figures(health.weight, weights[place], what + " weight");
        if (step == 2) {
          EXPECT_EQ(health.weight.norm, 0);
          EXPECT_EQ(health.weight.largest, 0);
          const Dense update = dense(view.weight, part);
          expect_figures(health.update, update, what + " update");
          EXPECT_NEAR(health.residual, residual_of(update), 1e-5) << what;
        }
        ++place;
      }
    }
    EXPECT_EQ(place, probe.parts().size());
  }
}

// CASES 22: who watches changes no bit, and asks for memory before the first step.
TEST(Health, a_step_that_is_watched_has_the_same_bits_and_allocates_nothing) {
  for (const MatrixOptimizer matrices : {MatrixOptimizer::muon, MatrixOptimizer::adamw}) {
    Parameters watched = model();
    Parameters plain = model();
    RoutingOptions options;
    options.matrices = matrices;
    const auto one = make_optimizer(watched.views(), options);
    const auto other = make_optimizer(plain.views(), options);
    HealthProbe probe(one->views());
    one->step({1.0, 1.0, 1, &probe});
    other->step({1.0, 1.0, 1});
    const std::int64_t bytes = probe.bytes();
    const test::CountAllocations allocations;
    for (std::int64_t step = 2; step <= 20; ++step) {
      probe.begin_step();
      const StepResult seen = one->step({1.0, 1.0, step, step % 3 == 0 ? &probe : nullptr});
      EXPECT_EQ(seen.flops, other->step({1.0, 1.0, step}).flops);
      EXPECT_EQ(std::isnan(probe.parts()[0].gradient.norm), step % 3 != 0);
      EXPECT_EQ(std::isnan(probe.parts()[0].update.norm), step % 3 != 0 || matrices == MatrixOptimizer::adamw);
    }
    EXPECT_EQ(allocations.count(), 0);
    EXPECT_EQ(probe.bytes(), bytes);
    for (std::size_t v = 0; v < one->views().size(); ++v)
      EXPECT_EQ(bits_of(one->views()[v].weight), bits_of(other->views()[v].weight));
  }
}

TEST(Health, what_is_not_finite_is_counted_and_named) {
  Parameters parameters = model();
  const auto optimizer = make_optimizer(parameters.views(), {});
  EXPECT_TRUE(non_finite_values(*optimizer, std::nullopt).empty());
  const std::vector<ParameterView> views = parameters.views();
  views[1].gradient(3) = std::numeric_limits<float>::quiet_NaN();
  views[1].gradient(8) = -std::numeric_limits<float>::infinity();
  views[3].weight(0) = std::numeric_limits<float>::infinity();
  HealthProbe probe(optimizer->views());
  probe.begin_step();
  const StepResult result = optimizer->step({1.0, 1.0, 1, &probe});
  EXPECT_EQ(result.failed, std::vector<std::string>{"wide"});
  EXPECT_EQ(probe.parts()[0].gradient.non_finite, 2);
  EXPECT_TRUE(std::isnan(probe.parts()[0].gradient.largest));
  EXPECT_TRUE(std::isnan(probe.parts()[0].update.norm)) << "none was made";
  EXPECT_EQ(probe.parts()[4].weight.non_finite, 1);
  EXPECT_GT(probe.parts()[4].update.norm, 0);

  optimizer->state()[2].values(5) = std::numeric_limits<float>::quiet_NaN();  // of the momentum of `wide`
  const std::vector<NonFinite> found = non_finite_values(*optimizer, std::nullopt, {"wide", "qkv"});
  ASSERT_EQ(found.size(), 4U);
  const auto expect = [&found](std::size_t i, const std::string& name, const std::string& quantity,
                               std::int64_t count) {
    EXPECT_EQ(found[i].parameter, name);
    EXPECT_EQ(found[i].quantity, quantity);
    EXPECT_EQ(found[i].count, count);
  };
  expect(0, "wide", "gradient", 2);
  expect(1, "tall", "weight", 1);
  expect(2, "wide", "momentum", 1);
  expect(3, "qkv", "update", 0);
  EXPECT_TRUE(non_finite_values(*optimizer, 9).empty()) << "a unit without views";
}

}  // namespace
}  // namespace matrixfsdp

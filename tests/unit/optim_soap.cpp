#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/soap.hpp>

#include "factored_fixture.hpp"
#include "optim_fixture.hpp"
#include "support/reference_factored.hpp"

namespace matrixfsdp {
namespace {

using reference::Dense;
using test::dense;
using test::parameter;
using test::Parameters;

/// Square k of a state that holds several; transposed: the reference has bases as columns.
Dense basis(Soap& soap, const std::string& name, std::int64_t offset, std::int64_t extent) {
  return reference::transpose(dense(test::state_of(soap, name), {offset, extent, extent, extent, ""}));
}

reference::SoapSettings settings_of(const SoapOptions& options) {
  auto settings = test::common_settings<reference::SoapSettings>(options);
  settings.factor_beta = options.factor_beta == -1.0 ? options.beta2 : options.factor_beta;
  return settings;
}

double distance_to_projector(const Dense& a, const Dense& b, std::int64_t columns) {
  const auto projector = [columns](const Dense& basis) {
    Dense first(basis.rows, columns);
    for (std::int64_t i = 0; i < basis.rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j)
        first(i, j) = basis(i, j);
    }
    return reference::multiply(first, reference::transpose(first));
  };
  return reference::distance(projector(a), projector(b));
}

/// Steps `spec` and one reference for each of its parts. After the first call they have the same bases up to signs and
/// the null space of a factor of low rank, which is nobody's choice: the references go on with the optimizer's.
void compare(const ParameterSpec& spec, const SoapOptions& options, int steps) {
  SCOPED_TRACE(spec.name);
  Parameters parameters;
  const ParameterView view = parameters.add(spec, ParameterKind::matrix);
  const std::vector<MatrixPart> parts = matrix_parts(*view.spec);
  std::vector<reference::Soap> references;
  for (const MatrixPart& part : parts)
    references.emplace_back(settings_of(options), dense(view.weight, part));
  Soap soap(parameters.views(), options);
  for (int step = 1; step <= steps; ++step) {
    parameters.draw_gradients(static_cast<std::uint64_t>(100 + step));
    EXPECT_TRUE(soap.step({1.0, 1.0, step}).failed.empty());
    std::int64_t left = 0;
    std::int64_t right = 0;
    for (std::size_t p = 0; p < parts.size(); ++p) {
      references[p].step(dense(view.gradient, parts[p]));
      if (step > 1) continue;
      const std::int64_t rank = std::min(parts[p].rows, parts[p].cols);
      const Dense u = basis(soap, "left_basis", left, parts[p].rows);
      const Dense v = basis(soap, "right_basis", right, parts[p].cols);
      for (std::int64_t k = 1; k <= rank; ++k) {  // every leading subspace: vectors, and their order
        EXPECT_LE(distance_to_projector(u, references[p].left_basis, k), 2e-3) << k;
        EXPECT_LE(distance_to_projector(v, references[p].right_basis, k), 2e-3) << k;
      }
      references[p].left_basis = u;
      references[p].right_basis = v;
      left += parts[p].rows * parts[p].rows;
      right += parts[p].cols * parts[p].cols;
    }
  }
  for (std::size_t p = 0; p < parts.size(); ++p)
    EXPECT_LE(reference::relative_distance(dense(view.weight, parts[p]), references[p].weight), 3e-4) << p;
}

SoapOptions with_frequency(std::int64_t frequency) {
  SoapOptions options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.25;
  options.preconditioner.frequency = frequency;
  return options;
}

TEST(Soap, FollowsTheReference) {
  for (const std::int64_t frequency : {1, 3, 10}) {
    SCOPED_TRACE(frequency);
    compare(parameter("square", {9, 9}), with_frequency(frequency), 14);
    compare(parameter("wide", {5, 11}), with_frequency(frequency), 14);
    compare(parameter("tall", {11, 5}), with_frequency(frequency), 14);
  }
}

TEST(Soap, FollowsTheReferenceWithItsOtherOptions) {
  SoapOptions options = with_frequency(2);
  options.factor_beta = 0.5;
  compare(parameter("factor_beta", {6, 7}), options, 8);
  options = with_frequency(2);
  options.bias_correction = false;
  compare(parameter("not_corrected", {6, 7}), options, 8);
  options = with_frequency(2);
  options.beta1 = 0.0;
  options.beta2 = 0.5;
  compare(parameter("betas", {6, 7}), options, 8);
}

// CASES 4 and 20: vectors as matrices, odd extents. The factor of a vector has full rank after nine gradients; with
// less a refresh may choose any basis of its null space.
TEST(Soap, FollowsTheReferenceAtTheEdges) {
  for (const Shape& shape : {Shape{1, 9}, {9, 1}})
    compare(parameter("vector", shape), with_frequency(12), 14);
  for (const Shape& shape : {Shape{1, 1}, {33, 17}})
    compare(parameter("edge", shape), with_frequency(2), 6);
}

// CASES 14 and 15: blocks of a fused parameter and batches have bases of their own.
TEST(Soap, PartsHaveBasesOfTheirOwn) {
  compare(test::fused("rows", {12, 4}, 0, {8, 2, 2}), with_frequency(2), 6);
  compare(test::fused("cols", {4, 12}, 1, {5, 7}), with_frequency(2), 6);
  compare(parameter("batch", {3, 4, 5}), with_frequency(2), 6);
}

TEST(Soap, FirstCallChangesNoWeight) {
  Parameters parameters;
  const ParameterView view = parameters.add(parameter("w", {5, 6}), ParameterKind::matrix);
  SoapOptions options = with_frequency(1);
  options.weight_decay = 0.5;
  Soap soap(parameters.views(), options);
  const std::string before = test::bits_of(view.weight);
  const StepResult first = soap.step({1.0, 1.0, 1});
  EXPECT_EQ(first.matrices_orthogonalized, 1);
  EXPECT_EQ(test::bits_of(view.weight), before);
  for (const StateView& state : soap.state()) {
    if (!state.name.ends_with("_moment")) continue;
    EXPECT_EQ(test::values_of(state.values), std::vector<float>(30, 0.0F)) << state.name;
  }
  soap.step({1.0, 1.0, 2});
  EXPECT_NE(test::bits_of(view.weight), before);
}

// The moments know nothing of Adam's global step: a matrix whose first call has failed begins with the next one.
TEST(Soap, BeginsWithTheFirstGoodGradient) {
  Parameters late;
  const ParameterView view = late.add(parameter("w", {5, 6}), ParameterKind::matrix);
  Parameters early;
  const ParameterView other = early.add(parameter("w", {5, 6}), ParameterKind::matrix);
  Soap one(late.views(), with_frequency(2));
  Soap two(early.views(), with_frequency(2));
  const float good = view.gradient.data()[3];
  view.gradient.data()[3] = INFINITY;
  EXPECT_EQ(one.step({1.0, 1.0, 1}).failed, std::vector<std::string>{"w"});
  view.gradient.data()[3] = good;
  for (int step = 1; step <= 4; ++step) {
    EXPECT_TRUE(one.step({1.0, 1.0, step + 1}).failed.empty());
    two.step({1.0, 1.0, step});
  }
  EXPECT_EQ(test::bits_of(view.weight), test::bits_of(other.weight));
}

TEST(Soap, ScalesGradientLearningRateAndDecayAsAsked) {
  const SoapOptions options = with_frequency(2);
  test::expect_scaled_as_asked<Soap, reference::Soap>(options, settings_of(options), 3e-4);
}

TEST(Soap, OptionsAreChecked) {
  constexpr auto make = &test::make_with<Soap, SoapOptions>;
  EXPECT_NO_THROW(make([](SoapOptions&) {}));
  EXPECT_THROW(make([](SoapOptions& o) { o.learning_rate = INFINITY; }), InputError);
  EXPECT_THROW(make([](SoapOptions& o) { o.weight_decay = -1.0; }), InputError);
  EXPECT_THROW(make([](SoapOptions& o) { o.beta1 = 1.0; }), InputError);
  EXPECT_THROW(make([](SoapOptions& o) { o.beta2 = -0.1; }), InputError);
  EXPECT_THROW(make([](SoapOptions& o) { o.factor_beta = 1.0; }), InputError);
  EXPECT_THROW(make([](SoapOptions& o) { o.epsilon = 0.0; }), InputError);
  EXPECT_THROW(make([](SoapOptions& o) { o.preconditioner.frequency = 0; }), InputError);
  EXPECT_THROW(make([](SoapOptions& o) { o.preconditioner.largest_dimension = 0; }), InputError);
}

}  // namespace
}  // namespace matrixfsdp

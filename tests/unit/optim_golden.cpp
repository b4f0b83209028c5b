#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/optim/shampoo.hpp>
#include <matrixfsdp/optim/soap.hpp>

#include "factored_fixture.hpp"
#include "optim_fixture.hpp"
#include "support/golden_optimizers.hpp"

/// Against what the public implementations compute (see golden_optimizers.py, also for the options).
namespace matrixfsdp {
namespace {

using test::Parameters;

/// Those of golden_optimizers.py.
class Numbers {
 public:
  void fill(const TensorView<float>& values) {
    for (std::size_t i = 0; i < values.extent(0); ++i) {
      state_ = (1103515245 * state_ + 12345) % (std::uint64_t{1} << 31);
      values.data()[i] = static_cast<float>(static_cast<double>(state_ >> 7) / 0x1p24 - 0.5);
    }
  }

 private:
  std::uint64_t state_ = 1;
};

/// A matrix that is stepped with the script's numbers.
class GoldenRun {
 public:
  GoldenRun(std::int64_t rows, std::int64_t cols)
      : view_(parameters_.add(test::parameter("w", {rows, cols}), ParameterKind::matrix)) {
    numbers_.fill(view_.weight);
  }

  [[nodiscard]] std::vector<ParameterView> views() const { return parameters_.views(); }

  void step(Optimizer& optimizer, int steps) {
    for (int k = 0; k < steps; ++k) {
      numbers_.fill(view_.gradient);
      EXPECT_TRUE(optimizer.step({1.0, 1.0, ++step_}).failed.empty());
    }
  }

  void expect(const std::vector<double>& golden) const {
    ASSERT_EQ(view_.weight.extent(0), golden.size());
    for (std::size_t i = 0; i < golden.size(); ++i)
      EXPECT_NEAR(view_.weight.data()[i], golden[i], 5e-5) << i;
  }

 private:
  Parameters parameters_;
  ParameterView view_;
  Numbers numbers_;
  int step_ = 0;
};

ShampooOptions shampoo_options() {
  ShampooOptions options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.25;
  options.epsilon = 1e-4;
  return options;
}

void compare(std::int64_t rows, std::int64_t cols, int steps, const ShampooOptions& options,
             const std::vector<double>& golden) {
  GoldenRun run(rows, cols);
  Shampoo shampoo(run.views(), options);
  run.step(shampoo, steps);
  run.expect(golden);
}

TEST(Golden, ShampooWithAdamGrafting) {
  ShampooOptions options = shampoo_options();
  options.preconditioner.frequency = 2;
  options.start_step = 3;
  compare(5, 3, 9, options, golden::shampoo_adam);
}

TEST(Golden, ShampooWithSgdGraftingAndBeta3) {
  ShampooOptions options = shampoo_options();
  options.preconditioner.grafting = Grafting::sgd;
  options.preconditioner.frequency = 3;
  options.beta3 = 0.5;
  compare(5, 3, 9, options, golden::shampoo_sgd);
}

TEST(Golden, ShampooWithSumsAndWithoutGrafting) {
  ShampooOptions options = shampoo_options();
  options.beta2 = 1.0;
  options.weight_decay = 0.0;
  options.preconditioner.grafting = Grafting::none;
  options.preconditioner.frequency = 1;
  options.start_step = 2;
  compare(4, 4, 6, options, golden::shampoo_sum);
}

TEST(Golden, ShampooInBlocks) {
  ShampooOptions options = shampoo_options();
  options.preconditioner.frequency = 4;
  options.preconditioner.block_size = 3;
  compare(5, 7, 8, options, golden::shampoo_blocks);
}

SoapOptions soap_options() {
  SoapOptions options;
  options.learning_rate = 0.1;
  options.weight_decay = 0.25;
  options.beta1 = 0.9;
  options.beta2 = 0.95;
  options.factor_beta = 0.8;
  options.preconditioner.frequency = 2;
  return options;
}

TEST(Golden, SoapOfASquare) {
  GoldenRun run(4, 4);
  Soap soap(run.views(), soap_options());
  run.step(soap, 9);
  run.expect(golden::soap_square);
}

// The first factor of a tall matrix is singular: any basis of its null space would do, and the reference's is taken.
TEST(Golden, SoapOfATallMatrix) {
  GoldenRun run(5, 3);
  Soap soap(run.views(), soap_options());
  run.step(soap, 1);
  for (const auto& [name, values] :
       {std::pair("left_basis", golden::soap_left_basis), {"right_basis", golden::soap_right_basis}}) {
    const TensorView<float> basis = test::state_of(soap, name);
    ASSERT_EQ(basis.extent(0), values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      basis.data()[i] = static_cast<float>(values[i]);
  }
  run.step(soap, 8);
  run.expect(golden::soap_tall);
}

}  // namespace
}  // namespace matrixfsdp

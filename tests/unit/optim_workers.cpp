#include <array>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>
#include <matrixfsdp/optim/routing.hpp>

#include "support/count_allocations.hpp"
#include "unit/optim_fixture.hpp"

// What is stepped by several workers: the same as by one, in every bit.
namespace matrixfsdp {
namespace {

using test::bits_of;
using test::fused;
using test::parameter;
using test::Parameters;

constexpr std::array<int, 4> worker_counts{1, 2, 3, 5};

/// Matrices of unlike shapes in two units, and a vector.
void add_parameters(Parameters& parameters) {
  const std::vector<ParameterSpec> specs{
      parameter("wide", {12, 40}),     parameter("square", {20, 20}),    fused("fused", {30, 18}, 0, {12, 18}),
      parameter("row", {1, 16}),       parameter("tall", {44, 9}),       parameter("empty", {0, 8}),
      parameter("stack", {2, 15, 11}), parameter("square too", {20, 20})};
  for (std::size_t i = 0; i < specs.size(); ++i)
    parameters.add(specs[i], ParameterKind::matrix).unit = i / 5;
  parameters.add(parameter("vector", {33}), ParameterKind::tail).unit = 1;
}

/// Weights and state, then what the steps returned.
struct Outcome {
  std::vector<std::string> bits;
  std::vector<std::string> told;
};

bool operator==(const Outcome& left, const Outcome& right) {
  return left.bits == right.bits && left.told == right.told;
}

void tell(const StepResult& result, std::vector<std::string>& told) {
  std::string line = std::to_string(result.matrices_orthogonalized) + " of " + std::to_string(result.flops);
  for (const std::string& name : result.failed)
    line += ", failed " + name;
  for (const MatrixSeconds& one : result.seconds)
    line += ", " + one.parameter->name;
  told.push_back(std::move(line));
}

/// Who looks, in which order.
class Watcher final : public StepObserver {
 public:
  void before_step(const ParameterView& view) override { look(view.spec->name); }
  void update(const ParameterView& view, const MatrixPart&, MatrixView<const float>, double) override {
    look(view.spec->name + " updated");
  }
  std::vector<std::string> seen;
  bool elsewhere = false;

 private:
  void look(std::string what) {
    elsewhere = elsewhere || std::this_thread::get_id() != here_;
    seen.push_back(std::move(what));
  }
  std::thread::id here_ = std::this_thread::get_id();
};

Outcome outcome_of(Optimizer& optimizer, std::vector<std::string> told) {
  Outcome outcome{{}, std::move(told)};
  for (const ParameterView& view : optimizer.views())
    outcome.bits.push_back(bits_of(view.weight));
  for (const StateView& state : optimizer.state())
    outcome.bits.push_back(bits_of(state.values));
  return outcome;
}

enum class Way { whole, by_unit, watched };

/// Four steps, the third with a gradient that one matrix cannot be stepped with.
Outcome run(RoutingOptions options, int workers, Way way = Way::whole) {
  options.workers = workers;
  Parameters parameters;
  add_parameters(parameters);
  const auto optimizer = make_optimizer(parameters.views(), options);
  std::vector<std::string> told;
  for (int step = 1; step <= 4; ++step) {
    parameters.draw_gradients(static_cast<std::uint64_t>(step));
    if (step == 3) parameters.views()[2].gradient.data()[300] = std::numeric_limits<float>::infinity();
    StepInput input{0.5, 1.0, step};
    Watcher watcher;
    if (way == Way::watched) input.observer = &watcher;
    if (way == Way::by_unit) {
      for (const std::size_t unit : {std::size_t{1}, std::size_t{0}}) {
        input.unit = unit;
        optimizer->step(input);
      }
    } else {
      tell(optimizer->step(input), told);
    }
    EXPECT_FALSE(watcher.elsewhere);
  }
  return outcome_of(*optimizer, std::move(told));
}

void expect_equal_for_all_workers(const RoutingOptions& options, const std::string& what) {
  const Outcome expected = run(options, 1);
  EXPECT_NE(expected.told[2].find("failed fused"), std::string::npos) << what;
  for (const int workers : worker_counts) {
    EXPECT_EQ(run(options, workers), expected) << what << ", " << workers << " workers";
    EXPECT_EQ(run(options, workers, Way::by_unit).bits, expected.bits) << what << ", " << workers << " workers by unit";
    EXPECT_EQ(run(options, workers, Way::watched), expected) << what << ", " << workers << " workers watched";
  }
}

TEST(OptimWorkers, MuonHasTheSameBitsWithAnyNumber) {
  RoutingOptions options;
  for (const NewtonSchulzAlgorithm algorithm : {NewtonSchulzAlgorithm::automatic, NewtonSchulzAlgorithm::standard,
                                                NewtonSchulzAlgorithm::gram, NewtonSchulzAlgorithm::gram_no_restart}) {
    options.muon.newton_schulz.algorithm = algorithm;
    expect_equal_for_all_workers(options, std::string(name_of(algorithm)));
  }
}

TEST(OptimWorkers, ShampooAndSoapHaveTheSameBitsWithAnyNumber) {
  RoutingOptions options;
  options.shampoo.preconditioner.frequency = options.soap.preconditioner.frequency = 2;
  options.shampoo.preconditioner.block_size = 16;
  for (const MatrixOptimizer optimizer : {MatrixOptimizer::shampoo, MatrixOptimizer::soap}) {
    options.matrices = optimizer;
    expect_equal_for_all_workers(options, std::string(name_of(optimizer)));
  }
}

TEST(OptimWorkers, MuonInBfloat16HasTheSameBitsWithAnyNumber) {
  RoutingOptions options;
  options.muon.newton_schulz.dtype = DType::bfloat16;
  if (!linalg::bfloat16_obstacle().empty()) {
    EXPECT_THROW(run(options, 2), InputError);
    return;
  }
  expect_equal_for_all_workers(options, "bfloat16");
}

/// Large enough for products in several pieces, with which the workers without a matrix help.
TEST(OptimWorkers, LargeMatricesHaveTheSameBitsWithAnyNumber) {
  const auto step = [](int workers) {
    Parameters parameters;
    parameters.add(parameter("large", {800, 1900}), ParameterKind::matrix);
    parameters.add(parameter("small", {64, 64}), ParameterKind::matrix);
    parameters.add(parameter("tall", {1700, 900}), ParameterKind::matrix);
    Muon muon(parameters.views(), {}, workers);
    muon.step({1.0, 1.0, 1});
    return outcome_of(muon, {}).bits;
  };
  const std::vector<std::string> expected = step(1);
  for (const int workers : {2, 3, 5})
    EXPECT_TRUE(step(workers) == expected) << workers << " workers";
}

TEST(OptimWorkers, AWatchedStepIsInOrder) {
  for (const int workers : {1, 3}) {
    Parameters parameters;
    for (const char* name : {"a", "b", "c"})
      parameters.add(parameter(name, {4, name[0] == 'c' ? 40 : 6}), ParameterKind::matrix);
    Muon muon(parameters.views(), {}, workers);
    Watcher watcher;
    StepInput input;
    input.observer = &watcher;
    muon.step(input);
    EXPECT_EQ(watcher.seen, (std::vector<std::string>{"a", "a updated", "b", "b updated", "c", "c updated"}));
    EXPECT_FALSE(watcher.elsewhere);
  }
}

// Coefficients that lose their steps while they are in use: a broken contract that only the iteration meets.
TEST(OptimWorkers, AnExceptionComesOutWithTheMatrixsName) {
  for (const int workers : worker_counts) {
    QuinticSequence sequence = quintic_sequence("keller-jordan");
    MuonOptions options;
    options.newton_schulz.coefficients = &sequence;
    Parameters parameters;
    add_parameters(parameters);
    std::vector<ParameterView> matrices = parameters.views();
    matrices.pop_back();
    Muon muon(matrices, options, workers);
    const std::vector<Quintic> steps = std::exchange(sequence.steps, {});
    for (int repetition = 0; repetition < 3; ++repetition) {
      try {
        muon.step({});
        FAIL() << "nothing was thrown";
      } catch (const ContractError& error) {
        const std::string message = error.what();
        const std::string name = message.substr(0, message.find(": orthogonalize: coefficients"));
        EXPECT_TRUE(name == "Muon, wide" || (workers > 1 && name.rfind("Muon, ", 0) == 0)) << message;
      }
    }
    sequence.steps = steps;
    EXPECT_TRUE(muon.step({}).failed.empty());
  }
  EXPECT_THROW(Muon({}, {}, 0), ContractError);
}

// CASES 22
TEST(OptimWorkers, WorkspaceIsThePlansAndFlatOverTwoHundredSteps) {
  for (const MatrixOptimizer kind : {MatrixOptimizer::muon, MatrixOptimizer::shampoo, MatrixOptimizer::soap}) {
    for (const int workers : worker_counts) {
      RoutingOptions options;
      options.matrices = kind;
      options.workers = workers;
      Parameters parameters;
      add_parameters(parameters);
      const auto optimizer = make_optimizer(parameters.views(), options);
      std::vector<const ParameterSpec*> specs;
      for (const ParameterView& view : optimizer->views())
        specs.push_back(view.spec);
      const std::int64_t expected = matrix_scratch_bytes(specs, cost_of(options));
      EXPECT_EQ(optimizer->workspace_bytes(), expected) << name_of(kind) << ", " << workers << " workers";
      // Kokkos makes the scratch of its reductions once in a process.
      for (int step = 1; step <= 10; ++step)
        optimizer->step({1.0, 1.0, step});
      const test::CountAllocations allocations;
      for (int step = 11; step <= 210; ++step) {
        optimizer->step({1.0, 1.0, step});
        ASSERT_EQ(optimizer->workspace_bytes(), expected) << step;
      }
      EXPECT_EQ(allocations.count(), 0) << name_of(kind) << ", " << workers << " workers";
    }
  }
}

TEST(OptimWorkers, TheCountedScratchIsAllThatIsAllocated) {
  for (const int workers : worker_counts) {
    Parameters parameters;
    add_parameters(parameters);
    std::vector<ParameterView> matrices = parameters.views();
    matrices.pop_back();
    const test::CountAllocations allocations;
    const Muon muon(matrices, {}, workers);
    EXPECT_EQ(allocations.held(), muon.workspace_bytes() + muon.state_bytes()) << workers << " workers";
  }
}

}  // namespace
}  // namespace matrixfsdp

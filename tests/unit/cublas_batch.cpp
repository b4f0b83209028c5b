#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/orthogonalize/many.hpp>

#include "linalg/batch.hpp"
#include "support/cublas_double/device.hpp"
#include "support/matrices.hpp"
#include "support/messages.hpp"
#include "unit/optim_fixture.hpp"

// Many matrices at once on cuBLAS: which calls they are, and that their results are those of one matrix after the
// other. The double sums the terms of a product in the same order in both, so those are equal bits here.
namespace matrixfsdp {
namespace {

using Algorithm = NewtonSchulzAlgorithm;
using cublas_double::control;
using linalg::Op;
using linalg::detail::batched_gemm;
using linalg::detail::MatrixBatch;
using test::bits_of;
using test::fused;
using test::integers;
using test::message_of;
using test::parameter;
using test::Parameters;
using test::Strided;

/// How often the routine was called, of all calls.
std::pair<int, int> calls_of(const std::string& routine) {
  std::istringstream names(control().calls);
  int of_it = 0;
  int all = 0;
  for (std::string name; names >> name; ++all)
    of_it += name == routine ? 1 : 0;
  return {of_it, all};
}

class CublasBatch : public ::testing::Test {
 protected:
  void SetUp() override { cublas_double::reset(); }
  void TearDown() override {
    EXPECT_EQ(control().refused, 0);
    EXPECT_FALSE(cublas_double::has_work());
    cublas_double::reset();
  }
};

/// `count` matrices of integers, one after the other: each product of theirs is exact.
template <class T>
MatrixBatch<T> stacked(const Strided<T>& all, std::int64_t count) {
  const MatrixView<T> view = all.view();
  return {view.data, count, view.rows / count, view.cols};
}

template <class T>
void expect_products(Op op_a, Op op_b) {
  constexpr std::int64_t count = 3;
  const std::int64_t m = 2;
  const std::int64_t n = 5;
  const std::int64_t k = 4;
  const Strided<T> a(op_a == Op::none ? integers(count * m, k, 1) : integers(count * k, m, 1));
  const Strided<T> b(op_b == Op::none ? integers(count * k, n, 2) : integers(count * n, k, 2));
  const Strided<T> c(count * m, n);
  control().calls.clear();
  batched_gemm<T>(op_a, op_b, stacked(a, count), stacked(b, count), stacked(c, count));
  EXPECT_EQ(control().calls, sizeof(T) == sizeof(float) ? "cublasSgemmStridedBatched " : "cublasDgemmStridedBatched ");
  for (std::int64_t i = 0; i < count; ++i) {
    const Strided<T> one(m, n);
    linalg::gemm<T>(op_a, op_b, 1, stacked(a, count)[i], stacked(b, count)[i], 0, one.view());
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t col = 0; col < n; ++col)
        EXPECT_EQ(stacked(c, count)[i](row, col), one(row, col));
    }
  }
}

TEST_F(CublasBatch, AProductOfABatchIsOneCall) {
  for (const Op op_a : {Op::none, Op::transpose}) {
    for (const Op op_b : {Op::none, Op::transpose}) {
      expect_products<float>(op_a, op_b);
      expect_products<double>(op_a, op_b);
    }
  }
}

TEST_F(CublasBatch, WhatDoesNotFitIsNotSent) {
  const Strided<float> a(integers(6, 4, 1));
  const Strided<float> c(6, 2);
  EXPECT_EQ(message_of<ContractError>(
                [&] { batched_gemm<float>(Op::none, Op::transpose, stacked(a, 3), stacked(a, 2), stacked(c, 3)); }),
            "batched_gemm: 3 matrices A, 2 B, 3 C: expected equal numbers");
  EXPECT_THROW(batched_gemm<float>(Op::none, Op::none, stacked(a, 3), stacked(a, 3), stacked(c, 3)), ContractError);
  const Strided<float> empty(6, 0);
  EXPECT_THROW(batched_gemm<float>(Op::none, Op::transpose, stacked(empty, 3), stacked(empty, 3), stacked(c, 3)),
               ContractError);
  batched_gemm<float>(Op::none, Op::transpose, MatrixBatch<float>(), MatrixBatch<float>(), MatrixBatch<float>());
  EXPECT_EQ(control().calls, "");
}

TEST_F(CublasBatch, AFailureNamesCallStatusAndExtents) {
  const Strided<float> a(integers(6, 4, 1));
  const Strided<float> c(6, 2);
  control().failing_call = "cublasSgemmStridedBatched";
  EXPECT_EQ(message_of<DeviceError>(
                [&] { batched_gemm<float>(Op::none, Op::transpose, stacked(a, 3), stacked(a, 3), stacked(c, 3)); }),
            "cublasSgemmStridedBatched of 2x2 with 4 terms failed with code 13: CUBLAS_STATUS_EXECUTION_FAILED");
}

/// The double refuses what cuBLAS does not define.
TEST_F(CublasBatch, ABatchThatWritesWhereItReadsIsRefused) {
  const Strided<float> a(integers(6, 2, 1));
  EXPECT_THROW(batched_gemm<float>(Op::none, Op::none, stacked(a, 3), stacked(a, 3), stacked(a, 3)), DeviceError);
  EXPECT_EQ(control().refused, 1);
  control().refused = 0;
}

/// `count` matrices each of these shapes.
struct Job {
  Job(const std::vector<std::pair<int, int>>& shapes, int count) {
    for (int i = 0; i < count; ++i) {
      for (const auto& [rows, cols] : shapes) {
        inputs.emplace_back(reference::gaussian(rows, cols, static_cast<int>(inputs.size()) + 1));
        outputs.emplace_back(rows, cols);
      }
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      tasks.push_back({inputs[i].view(), outputs[i].view(), {}});
  }

  std::vector<Strided<float>> inputs;
  std::vector<Strided<float>> outputs;
  std::vector<OrthogonalizeTask<float>> tasks;
};

// 5 slots of 2 x 800000: 7 matrices are a whole batch and one with three zeros.
TEST_F(CublasBatch, EachProductOfTheIterationIsOneCallForABatch) {
  ASSERT_EQ(newton_schulz_batch(2, 800000, 5, Algorithm::gram), 5);
  const std::vector<std::pair<Algorithm, int>> products_of_five_steps{
      {Algorithm::standard, 15}, {Algorithm::gram, 18}, {Algorithm::gram_no_restart, 19}};
  for (const auto& [algorithm, products] : products_of_five_steps) {
    Job job({{2, 800000}}, 7);
    OrthogonalizeTeam<float> team;
    control().calls.clear();
    const NewtonSchulzOptions options{algorithm, nullptr, 5};
    orthogonalize_many<float>(job.tasks, options, team);
    EXPECT_EQ(calls_of("cublasSgemmStridedBatched"), std::pair(2 * products, 2 * products));
    EXPECT_EQ(team.bytes(), newton_schulz_scratch(2, 800000, algorithm, 5, DType::float32, 5).bytes());
    EXPECT_LE(team.bytes(), newton_schulz_batch_bytes);
    for (const std::size_t i : {0U, 6U}) {
      const Strided<float> alone(2, 800000);
      NewtonSchulzWorkspace<float> workspace;
      orthogonalize<float>(job.inputs[i].view(), alone.view(), options, workspace);
      EXPECT_EQ(job.outputs[i].bits(), alone.bits()) << i;
    }
  }
}

TEST_F(CublasBatch, Bfloat16) {
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{6, 10}, {10, 6}, {100, 100}}) {
    NewtonSchulzOptions options{Algorithm::standard, nullptr, 3};
    options.dtype = DType::bfloat16;
    options.measure_residual = true;
    Job job({{rows, cols}}, 3);
    job.inputs[1].fill(std::numeric_limits<float>::quiet_NaN());
    OrthogonalizeTeam<float> team;
    orthogonalize_many<float>(job.tasks, options, team);
    EXPECT_EQ(calls_of("cublasGemmStridedBatchedEx"), std::pair(9, 10)) << "and one for the residual, of float";
    const std::int64_t slots = newton_schulz_batch(rows, cols, 3, Algorithm::standard, DType::bfloat16);
    EXPECT_EQ(slots, 128);
    EXPECT_EQ(team.bytes(), newton_schulz_scratch(rows, cols, Algorithm::standard, 3, DType::bfloat16, slots).bytes());
    EXPECT_EQ(job.tasks[1].result.status, OrthogonalizeStatus::non_finite);
    for (const std::size_t i : {0U, 2U}) {
      const Strided<float> alone(rows, cols);
      NewtonSchulzWorkspace<float> workspace;
      const OrthogonalizeResult one = orthogonalize<float>(job.inputs[i].view(), alone.view(), options, workspace);
      EXPECT_EQ(job.outputs[i].bits(), alone.bits());
      EXPECT_EQ(job.tasks[i].result.residual, one.residual);
      EXPECT_EQ(job.tasks[i].result.flops,
                newton_schulz_flops(rows, cols, 3, Algorithm::standard, DType::bfloat16, true));
    }
    control().calls.clear();
  }
}

TEST_F(CublasBatch, ShapesDoNotMeet) {
  Job job({{3, 8}, {8, 3}, {5, 5}, {0, 4}}, 3);
  OrthogonalizeTeam<float> team;
  orthogonalize_many<float>(job.tasks, {Algorithm::standard, nullptr, 4}, team);
  EXPECT_EQ(calls_of("cublasSgemmStridedBatched"), std::pair(3 * 12, 3 * 12));
  for (std::size_t i = 0; i < job.tasks.size(); ++i) {
    const MatrixView<const float>& input = job.tasks[i].input;
    EXPECT_EQ(job.tasks[i].result.status, input.rows == 0 ? OrthogonalizeStatus::zero : OrthogonalizeStatus::ok);
    const Strided<float> alone(input.rows, input.cols);
    NewtonSchulzWorkspace<float> workspace;
    orthogonalize<float>(input, alone.view(), {Algorithm::standard, nullptr, 4}, workspace);
    EXPECT_EQ(job.outputs[i].bits(), alone.bits()) << i;
  }
}

// A failure is no result of another matrix: the call throws, and the next one works.
TEST_F(CublasBatch, ACallThatFailsReachesTheCaller) {
  Job job({{3, 8}}, 2);
  OrthogonalizeTeam<float> team;
  control().failing_call = "cublasSgemmStridedBatched";
  EXPECT_THROW(orthogonalize_many<float>(job.tasks, {}, team), DeviceError);
  orthogonalize_many<float>(job.tasks, {}, team);
  EXPECT_EQ(job.tasks[1].result.status, OrthogonalizeStatus::ok);
}

/// Four parameters of one shape, in two units, one whose gradient is not finite, and two others.
void add_parameters(Parameters& parameters) {
  const std::vector<ParameterSpec> specs{parameter("a", {12, 20}), fused("qkv", {18, 9}, 0, {9, 9}),
                                         parameter("b", {12, 20}), parameter("c", {12, 20}),
                                         parameter("d", {12, 20}), parameter("tall", {21, 4})};
  for (std::size_t i = 0; i < specs.size(); ++i)
    parameters.add(specs[i], ParameterKind::matrix).unit = i / 3;
  parameters.views()[3].gradient.data()[7] = std::numeric_limits<float>::quiet_NaN();
}

std::vector<std::string> bits_after(Parameters& parameters, Optimizer& muon) {
  std::vector<std::string> bits;
  for (const ParameterView& view : parameters.views())
    bits.push_back(bits_of(view.weight));
  for (const StateView& view : muon.state())
    bits.push_back(bits_of(view.values));
  return bits;
}

struct Watcher : StepObserver {
  void before_step(const ParameterView&) override { ++matrices; }
  void update(const ParameterView&, const MatrixPart&, MatrixView<const float>, double) override { ++updates; }
  int matrices = 0;
  int updates = 0;
};

TEST_F(CublasBatch, MuonStepsMatricesOfOneShapeTogether) {
  RoutingOptions options;
  options.muon.newton_schulz = {Algorithm::standard, nullptr, 2};
  ASSERT_TRUE(cost_of(options).batches);
  Parameters together;
  add_parameters(together);
  const auto muon = std::make_unique<Muon>(together.views(), options.muon);
  control().calls.clear();
  const StepResult result = muon->step({});
  // Of three shapes, 2 steps of 3 products; a parameter's parts of one shape are in one batch.
  EXPECT_EQ(calls_of("cublasSgemmStridedBatched"), std::pair(18, 18));
  EXPECT_EQ(result.failed, std::vector<std::string>{"c"});
  EXPECT_EQ(result.matrices_orthogonalized, 6);
  ASSERT_EQ(result.seconds.size(), 5U);
  EXPECT_EQ(result.seconds[1].parameter->name, "qkv");
  std::int64_t flops = 0;
  for (const ParameterView& view : together.views()) {
    if (view.spec->name != "c") flops += step_flops(*view.spec, cost_of(options));
  }
  EXPECT_EQ(result.flops, flops);
  const std::vector<std::string> bits = bits_after(together, *muon);

  Parameters watched;
  add_parameters(watched);
  Muon one_by_one(watched.views(), options.muon);
  Watcher watcher;
  StepInput input;
  input.observer = &watcher;
  one_by_one.step(input);
  EXPECT_EQ(watcher.matrices, 6);
  EXPECT_EQ(watcher.updates, 6);
  EXPECT_EQ(bits_after(watched, one_by_one), bits);

  Parameters by_unit;
  add_parameters(by_unit);
  Muon units(by_unit.views(), options.muon);
  for (const std::size_t unit : {1U, 0U}) {
    StepInput of_unit;
    of_unit.unit = unit;
    units.step(of_unit);
  }
  EXPECT_EQ(bits_after(by_unit, units), bits);
}

TEST_F(CublasBatch, MuonsScratchIsWhatThePlanSays) {
  for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::standard}) {
    RoutingOptions options;
    options.muon.newton_schulz.algorithm = algorithm;
    Parameters parameters;
    add_parameters(parameters);
    const Muon muon(parameters.views(), options.muon);
    const std::vector<ParameterView> views = parameters.views();
    std::vector<const ParameterSpec*> specs;
    for (const ParameterView& view : views)
      specs.push_back(view.spec);
    const OptimizerCost cost = cost_of(options);
    EXPECT_EQ(muon.workspace_bytes(), matrix_scratch_bytes(specs, cost));
    const std::int64_t slots = newton_schulz_batch(12, 20, 5, algorithm);
    EXPECT_EQ(stepped_together(*specs[0], cost), slots);
    EXPECT_EQ(stepped_together(*specs[1], cost), newton_schulz_batch(9, 9, 5, algorithm) / 2);
    OptimizerCost host = cost;
    host.batches = false;
    EXPECT_EQ(stepped_together(*specs[0], host), 1);
    EXPECT_GT(matrix_scratch_bytes(specs, cost), matrix_scratch_bytes(specs, host));
  }
}

}  // namespace
}  // namespace matrixfsdp

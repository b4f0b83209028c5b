#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/many.hpp>

#include "orthogonalize/batch.hpp"
#include "support/count_allocations.hpp"
#include "support/matrices.hpp"

// Batches are a device's; what they compute does not depend on where, so the host's BLAS is asked too.
namespace matrixfsdp {
namespace {

using Algorithm = NewtonSchulzAlgorithm;
using test::Strided;

constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Gaussian matrices of one shape, with gaps between the rows of inputs and results.
template <class T>
struct Matrices {
  Matrices(std::int64_t rows, std::int64_t cols, int count) {
    for (int i = 0; i < count; ++i) {
      inputs.emplace_back(reference::gaussian(rows, cols, i + 1), 3);
      outputs.emplace_back(rows, cols, 2);
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      tasks.push_back({inputs[i].view(), outputs[i].view(), {}});
    for (OrthogonalizeTask<T>& task : tasks)
      pointers.push_back(&task);
  }

  void run(std::int64_t slots, const NewtonSchulzOptions& options, NewtonSchulzWorkspace<T>& workspace) {
    detail::orthogonalize_batch<T>(pointers, slots, options, workspace);
  }
  void run(std::int64_t slots, const NewtonSchulzOptions& options) {
    NewtonSchulzWorkspace<T> workspace;
    run(slots, options, workspace);
  }
  void run_alone(const NewtonSchulzOptions& options) {
    NewtonSchulzWorkspace<T> workspace;
    for (OrthogonalizeTask<T>& task : tasks)
      task.result = orthogonalize<T>(task.input, task.output, options, workspace);
  }

  std::vector<Strided<T>> inputs;
  std::vector<Strided<T>> outputs;
  std::vector<OrthogonalizeTask<T>> tasks;
  std::vector<OrthogonalizeTask<T>*> pointers;
};

/// ||a - b||_F / ||b||_F
template <class T>
double difference(const Strided<T>& a, const Strided<T>& b) {
  reference::Dense both = a.dense();
  const reference::Dense other = b.dense();
  for (std::size_t i = 0; i < both.values.size(); ++i)
    both.values[i] -= other.values[i];
  return reference::norm(both) / reference::norm(other);
}

template <class T>
void expect_those_of_one_at_a_time(std::int64_t rows, std::int64_t cols, Algorithm algorithm) {
  NewtonSchulzOptions options{algorithm, nullptr, 5};
  options.measure_residual = true;
  Matrices<T> alone(rows, cols, 3);
  alone.run_alone(options);
  Matrices<T> batch(rows, cols, 3);
  batch.run(4, options);
  for (std::size_t i = 0; i < batch.tasks.size(); ++i) {
    const OrthogonalizeResult& result = batch.tasks[i].result;
    const OrthogonalizeResult& expected = alone.tasks[i].result;
    EXPECT_EQ(result.status, expected.status);
    EXPECT_EQ(result.algorithm, expected.algorithm);
    EXPECT_EQ(result.steps, expected.steps);
    EXPECT_EQ(result.flops, newton_schulz_flops(rows, cols, 5, algorithm, DType::float32, true));
    EXPECT_NEAR(result.residual, expected.residual, 1e-4);
    EXPECT_LE(difference(batch.outputs[i], alone.outputs[i]), (std::is_same_v<T, float> ? 1e-3 : 1e-11))
        << rows << " x " << cols;
    EXPECT_TRUE(batch.outputs[i].gaps_are_untouched());
  }
}

TEST(OrthogonalizeBatch, ResultsAreThoseOfOneAtATime) {
  for (const Algorithm algorithm :
       {Algorithm::automatic, Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
    for (const auto& [rows, cols] :
         std::vector<std::pair<int, int>>{{20, 70}, {33, 33}, {64, 8}, {1, 50}, {7, 1}, {1, 1}, {3, 9000}}) {
      expect_those_of_one_at_a_time<float>(rows, cols, algorithm);
      expect_those_of_one_at_a_time<double>(rows, cols, algorithm);
    }
  }
}

// What a slot's neighbours hold, how many slots there are, and in which one a matrix is, changes no bit.
TEST(OrthogonalizeBatch, AMatrixWithoutAnAnswerIsAStatusOfItsOwn) {
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram}) {
    const NewtonSchulzOptions options{algorithm, nullptr, 5};
    Matrices<float> good(9, 21, 5);
    good.run(5, options);
    Matrices<float> batch(9, 21, 5);
    batch.inputs[1].view()(2, 3) = nan;
    batch.inputs[3].fill(0);
    batch.inputs[4].view()(0, 0) = std::numeric_limits<float>::infinity();
    batch.run(6, options);
    const std::string untouched = Strided<float>(9, 21).bits();
    const std::string zeros = Strided<float>(reference::Dense(9, 21)).bits();
    EXPECT_EQ(batch.tasks[1].result.status, OrthogonalizeStatus::non_finite);
    EXPECT_EQ(batch.tasks[3].result.status, OrthogonalizeStatus::zero);
    EXPECT_EQ(batch.tasks[4].result.status, OrthogonalizeStatus::non_finite);
    for (const std::size_t i : {1U, 3U, 4U}) {
      EXPECT_EQ(batch.tasks[i].result.flops, 0);
      EXPECT_TRUE(std::isnan(batch.tasks[i].result.residual));
    }
    EXPECT_EQ(batch.outputs[1].bits(), untouched);
    EXPECT_EQ(batch.outputs[3].bits(), zeros);
    EXPECT_EQ(batch.outputs[4].bits(), untouched);
    for (const std::size_t i : {0U, 2U}) {
      EXPECT_EQ(batch.tasks[i].result.status, OrthogonalizeStatus::ok);
      EXPECT_EQ(batch.outputs[i].bits(), good.outputs[i].bits());
    }
    // Another slot, with others' results in the workspace.
    NewtonSchulzWorkspace<float> workspace;
    good.run(5, options, workspace);
    std::swap(batch.pointers[0], batch.pointers[2]);
    batch.outputs[0].fill(7);
    batch.run(5, options, workspace);
    EXPECT_EQ(batch.outputs[0].bits(), good.outputs[0].bits());
  }
}

TEST(OrthogonalizeBatch, NoneOfThemHasAnAnswer) {
  Matrices<float> batch(4, 6, 2);
  batch.inputs[0].fill(0);
  batch.inputs[1].fill(nan);
  NewtonSchulzOptions options;
  options.measure_residual = true;
  batch.run(3, options);
  EXPECT_EQ(batch.tasks[0].result.status, OrthogonalizeStatus::zero);
  EXPECT_EQ(batch.outputs[0].bits(), Strided<float>(reference::Dense(4, 6)).bits());
  EXPECT_EQ(batch.tasks[1].result.status, OrthogonalizeStatus::non_finite);
  EXPECT_EQ(batch.outputs[1].bits(), Strided<float>(4, 6).bits());
}

TEST(OrthogonalizeBatch, ADivergedOneIsTold) {
  // x -> 3 x: no fixed point.
  const QuinticSequence growing{"growing", {{3, 0, 0}}, 5};
  const NewtonSchulzOptions options{Algorithm::standard, &growing, 6};
  Matrices<float> batch(5, 5, 2);
  batch.inputs[1].fill(0);
  batch.run(2, options);
  EXPECT_EQ(batch.tasks[0].result.status, OrthogonalizeStatus::diverged);
  EXPECT_EQ(batch.tasks[1].result.status, OrthogonalizeStatus::zero);
}

TEST(OrthogonalizeBatch, ScaleDoesNotMatterAndTheFloorDoes) {
  for (const double scale : {0x1p-140, 0x1p-40, 0x1p100}) {
    Matrices<float> plain(6, 11, 2);
    plain.run(2, {});
    Matrices<float> scaled(6, 11, 2);
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t j = 0; j < 11; ++j) {
        // Few bits, so that no scale rounds them.
        const float entry = std::round(plain.inputs[0](i, j) * 4.0F);
        plain.inputs[0](i, j) = entry;
        scaled.inputs[0](i, j) = entry * static_cast<float>(scale);
      }
    }
    plain.run(2, {});
    scaled.run(2, {});
    EXPECT_EQ(scaled.outputs[0].bits(), plain.outputs[0].bits()) << scale;
    EXPECT_EQ(scaled.outputs[1].bits(), plain.outputs[1].bits());
  }
  NewtonSchulzOptions floor;
  floor.norm_floor = 1e6;
  Matrices<float> alone(6, 11, 2);
  alone.run_alone(floor);
  Matrices<float> batch(6, 11, 2);
  batch.run(2, floor);
  EXPECT_LE(difference(batch.outputs[1], alone.outputs[1]), 1e-5);
}

TEST(OrthogonalizeBatch, InPlace) {
  Matrices<float> apart(12, 7, 3);
  apart.run(3, {});
  Matrices<float> same(12, 7, 3);
  for (std::size_t i = 0; i < same.tasks.size(); ++i)
    same.tasks[i].output = same.inputs[i].view();
  same.run(3, {});
  for (std::size_t i = 0; i < same.tasks.size(); ++i)
    EXPECT_EQ(same.inputs[i].bits(), apart.outputs[i].bits());
}

TEST(OrthogonalizeBatch, ScratchIsThatOfThePlanAndIsKept) {
  for (const Algorithm algorithm : {Algorithm::standard, Algorithm::gram}) {
    const NewtonSchulzOptions options{algorithm, nullptr, 3};
    NewtonSchulzWorkspace<float> workspace;
    Matrices<float> batch(10, 30, 4);
    batch.run(7, options, workspace);
    const NewtonSchulzScratch scratch = newton_schulz_scratch(10, 30, algorithm, 3, DType::float32, 7);
    EXPECT_EQ(workspace.bytes(), scratch.bytes());
    EXPECT_EQ(scratch.iterate, 2 * 7 * 300);
    EXPECT_EQ(scratch.products, (algorithm == Algorithm::standard ? 2 : 4) * 7 * 100);
    EXPECT_EQ(scratch.bytes(), 4 * (scratch.iterate + scratch.products) + 7 * (8 + 96));
    const test::CountAllocations allocations;
    for (int call = 0; call < 200; ++call)
      batch.run(7, options, workspace);
    EXPECT_EQ(allocations.count(), 0);
  }
}

TEST(OrthogonalizeBatch, BrokenContracts) {
  Matrices<float> batch(4, 6, 3);
  EXPECT_THROW(batch.run(2, {}), ContractError);
  EXPECT_THROW(batch.run(4, {Algorithm::standard, nullptr, 0}), ContractError);
  Strided<float> other(4, 7);
  batch.tasks[1].output = other.view();
  EXPECT_THROW(batch.run(4, {}), ContractError);
  batch.tasks[1].input = other.view();
  EXPECT_THROW(batch.run(4, {}), ContractError);
  batch.pointers.clear();
  EXPECT_THROW(batch.run(4, {}), ContractError);
}

}  // namespace
}  // namespace matrixfsdp

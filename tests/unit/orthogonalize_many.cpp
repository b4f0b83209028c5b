#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/orthogonalize/many.hpp>

#include "support/count_allocations.hpp"
#include "support/matrices.hpp"

namespace matrixfsdp {
namespace {

using Algorithm = NewtonSchulzAlgorithm;
using test::Strided;

/// Matrices of unlike shapes, one zero, one not finite, one empty.
struct Batch {
  Batch() {
    const std::vector<std::pair<int, int>> shapes{{20, 70}, {33, 33}, {64, 8}, {1, 50}, {9, 40}, {0, 4}, {33, 33}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      inputs.emplace_back(reference::gaussian(shapes[i].first, shapes[i].second, static_cast<int>(i) + 1));
      outputs.emplace_back(shapes[i].first, shapes[i].second);
    }
    inputs[4].view()(2, 3) = std::numeric_limits<float>::quiet_NaN();
    for (std::int64_t i = 0; i < 50; ++i)
      inputs[3].view()(0, i) = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      tasks.push_back({inputs[i].view(), outputs[i].view(), {}});
  }

  std::vector<Strided<float>> inputs;
  std::vector<Strided<float>> outputs;
  std::vector<OrthogonalizeTask<float>> tasks;
};

bool same_bits(const MatrixView<float>& a, const MatrixView<float>& b) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    if (std::memcmp(&a(i, 0), &b(i, 0), static_cast<std::size_t>(a.cols) * sizeof(float)) != 0) return false;
  }
  return true;
}

/// The bits of a matrix alone, or what many.hpp says of batches.
bool same_result(const MatrixView<float>& a, const MatrixView<float>& b) {
  if (!linalg::batches_products() || same_bits(a, b)) return same_bits(a, b);
  double difference = 0;
  double norm = 0;
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j) {
      difference += std::pow(static_cast<double>(a(i, j)) - static_cast<double>(b(i, j)), 2);
      norm += std::pow(static_cast<double>(b(i, j)), 2);
    }
  }
  return std::sqrt(difference) <= 1e-3 * std::sqrt(norm);
}

TEST(OrthogonalizeMany, EachIsWhatItIsAlone) {
  for (const Algorithm algorithm :
       {Algorithm::automatic, Algorithm::standard, Algorithm::gram, Algorithm::gram_no_restart}) {
    NewtonSchulzOptions options{algorithm, nullptr, 5};
    options.measure_residual = true;
    Batch alone;
    NewtonSchulzWorkspace<float> workspace;
    for (OrthogonalizeTask<float>& task : alone.tasks)
      task.result = orthogonalize<float>(task.input, task.output, options, workspace);
    for (const int workers : {1, 2, 3, 5}) {
      if (linalg::batches_products() && workers > 1) break;  // there is one
      Batch batch;
      OrthogonalizeTeam<float> team(workers);
      orthogonalize_many<float>(std::span(batch.tasks), options, team);
      for (std::size_t i = 0; i < batch.tasks.size(); ++i) {
        const OrthogonalizeResult& result = batch.tasks[i].result;
        const OrthogonalizeResult& expected = alone.tasks[i].result;
        EXPECT_EQ(result.status, expected.status) << i;
        EXPECT_TRUE(result.flops == expected.flops || linalg::batches_products()) << i;
        if (linalg::batches_products() && result.status == OrthogonalizeStatus::ok) {
          EXPECT_NEAR(result.residual, expected.residual, 1e-4) << i;
        } else {
          EXPECT_EQ(std::memcmp(&result.residual, &expected.residual, sizeof(double)), 0) << i;
        }
        EXPECT_TRUE(same_result(batch.tasks[i].output, alone.tasks[i].output)) << i << ", " << workers << " workers";
      }
    }
  }
}

TEST(OrthogonalizeMany, SecondCallAllocatesNothing) {
  for (const int workers : {1, 3}) {
    Batch batch;
    OrthogonalizeTeam<float> team(workers);
    EXPECT_EQ(team.bytes(), 0);
    orthogonalize_many<float>(std::span(batch.tasks), {}, team);
    const std::int64_t bytes = team.bytes();
    const test::CountAllocations allocations;
    // On the double of cuBLAS a call computes whole batches, slowly.
    const int calls = linalg::batches_products() ? 2 : 200;
    for (int call = 0; call < calls; ++call)
      orthogonalize_many<float>(std::span(batch.tasks), {}, team);
    EXPECT_EQ(allocations.count(), 0);
    EXPECT_EQ(team.bytes(), bytes);
  }
}

TEST(OrthogonalizeMany, ABrokenContractReachesTheCaller) {
  for (const int workers : {1, 3}) {
    Batch batch;
    OrthogonalizeTeam<float> team(workers);
    batch.tasks[1].output = batch.tasks[0].output;
    EXPECT_THROW(orthogonalize_many<float>(std::span(batch.tasks), {}, team), ContractError);
    batch.tasks[1].output = batch.outputs[1].view();
    orthogonalize_many<float>(std::span(batch.tasks), {}, team);
    EXPECT_EQ(batch.tasks[1].result.status, OrthogonalizeStatus::ok);
    orthogonalize_many<float>({}, {}, team);
  }
  EXPECT_THROW(OrthogonalizeTeam<float>(0), ContractError);
}

}  // namespace
}  // namespace matrixfsdp

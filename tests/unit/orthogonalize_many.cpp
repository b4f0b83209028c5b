#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
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
      Batch batch;
      OrthogonalizeTeam<float> team(workers);
      orthogonalize_many<float>(std::span(batch.tasks), options, team);
      for (std::size_t i = 0; i < batch.tasks.size(); ++i) {
        const OrthogonalizeResult& result = batch.tasks[i].result;
        const OrthogonalizeResult& expected = alone.tasks[i].result;
        EXPECT_EQ(result.status, expected.status) << i;
        EXPECT_EQ(result.flops, expected.flops) << i;
        EXPECT_EQ(std::memcmp(&result.residual, &expected.residual, sizeof(double)), 0) << i;
        EXPECT_TRUE(same_bits(batch.tasks[i].output, alone.tasks[i].output)) << i << ", " << workers << " workers";
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
    for (int call = 0; call < 200; ++call)
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

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/worker_lists.hpp>

#include "support/specs.hpp"

namespace matrixfsdp {
namespace {

std::vector<std::size_t> list_of(const WorkerLists& lists, int worker) {
  const auto list = lists.of(worker);
  return {list.begin(), list.end()};
}

TEST(PlanWorkerLists, LargestFirstToTheWorkerWithTheLeast) {
  WorkerLists lists({3, 7, 5, 3, 6}, 2);
  lists.assign([](std::size_t) { return true; });
  // 7 | 6; 5 to the second (11), 3 to the first (10), 3 to the first (13)
  EXPECT_EQ(list_of(lists, 0), (std::vector<std::size_t>{1, 0, 3}));
  EXPECT_EQ(list_of(lists, 1), (std::vector<std::size_t>{4, 2}));
  lists.assign([](std::size_t piece) { return piece != 1; });
  EXPECT_EQ(list_of(lists, 0), (std::vector<std::size_t>{4, 3}));
  EXPECT_EQ(list_of(lists, 1), (std::vector<std::size_t>{2, 0}));
  EXPECT_THROW(WorkerLists({1}, 0), ContractError);
}

TEST(PlanWorkerLists, EveryWantedPieceIsOnOneListAndWithinItsBound) {
  std::mt19937 random(1);
  for (int repetition = 0; repetition < 300; ++repetition) {
    const int workers = 1 + static_cast<int>(random() % 6);
    std::vector<std::int64_t> costs(random() % 15);
    for (std::int64_t& cost : costs)
      cost = static_cast<std::int64_t>(random() % 8);  // some equal, some 0
    std::vector<bool> wanted(costs.size());
    for (std::size_t i = 0; i < costs.size(); ++i)
      wanted[i] = random() % 4 != 0;
    WorkerLists lists(costs, workers);
    lists.assign([&](std::size_t piece) { return wanted[piece]; });
    std::vector<int> times(costs.size(), 0);
    std::int64_t total = 0;
    std::int64_t largest = 0;
    std::vector<std::int64_t> loads;
    for (int worker = 0; worker < workers; ++worker) {
      const auto bound = lists.most_of(worker);
      const std::set<std::size_t> allowed(bound.begin(), bound.end());
      loads.push_back(0);
      for (const std::size_t piece : lists.of(worker)) {
        ++times[piece];
        EXPECT_EQ(allowed.count(piece), 1U);
        loads.back() += std::max<std::int64_t>(1, costs[piece]);
        largest = std::max(largest, std::max<std::int64_t>(1, costs[piece]));
      }
      total += loads.back();
    }
    for (std::size_t i = 0; i < costs.size(); ++i)
      EXPECT_EQ(times[i], wanted[i] ? 1 : 0);
    // Graham: what ends last began when every worker had at least as much.
    EXPECT_LE(*std::max_element(loads.begin(), loads.end()) * workers, total + largest * (workers - 1));
  }
}

TEST(PlanWorkerLists, ScratchIsOneWorkersTimesTheirNumberWhereMatricesAreEqual) {
  const ParameterSpec square = test::parameter("square", {12, 12});
  const ParameterSpec wide = test::parameter("wide", {6, 200});
  const ParameterSpec vector = test::parameter("vector", {9});
  for (const MatrixOptimizer optimizer : {MatrixOptimizer::muon, MatrixOptimizer::shampoo, MatrixOptimizer::soap}) {
    OptimizerCost cost;
    cost.matrices = optimizer;
    MatrixScratch of_square;
    of_square.include(square, cost);
    MatrixScratch of_wide;
    of_wide.include(wide, cost);
    MatrixScratch both = of_square;
    both.include(wide, cost);
    EXPECT_EQ(matrix_scratch_bytes({}, cost), 0);
    EXPECT_EQ(matrix_scratch_bytes({&square, &vector, &wide, &square}, cost), both.bytes());
    cost.workers = 2;
    EXPECT_EQ(matrix_scratch_bytes({&square, &square, &square}, cost), 2 * of_square.bytes());
    // The one with more FLOPs is the first worker's, who may get the other too.
    const bool wide_is_larger = step_flops(wide, cost) > step_flops(square, cost);
    EXPECT_EQ(matrix_scratch_bytes({&square, &vector, &wide}, cost),
              both.bytes() + (wide_is_larger ? of_square : of_wide).bytes());
    cost.workers = 5;  // more than there are matrices
    EXPECT_EQ(matrix_scratch_bytes({&square, &square}, cost), 2 * of_square.bytes());
    cost.workers = 0;
    EXPECT_THROW(matrix_scratch_bytes({&square}, cost), ContractError);
  }
}

}  // namespace
}  // namespace matrixfsdp

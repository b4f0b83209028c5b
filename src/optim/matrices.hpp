#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <matrixfsdp/linalg/workers.hpp>
#include <matrixfsdp/optim/optimizer.hpp>
#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/worker_lists.hpp>

#include "optim/views.hpp"

namespace matrixfsdp::detail {

/// The whole matrices that a matrix optimizer steps, and what every such optimizer does alike around the step of one:
/// order, workers, checks, regions, times, and the count of what was stepped or has failed.
class Matrices {
 public:
  Matrices() = default;
  /// `cost.workers` of them step matrices side by side, the work shared out by step_flops. Throws ContractError for a
  /// view that is not of kind matrix and whole, as canonical(), and as linalg::Workers.
  Matrices(std::vector<ParameterView> views, std::string_view optimizer, const OptimizerCost& cost);

  [[nodiscard]] const std::vector<ParameterView>& views() const { return views_; }
  /// As matrix_parts has them, of view `index`.
  [[nodiscard]] const std::vector<MatrixPart>& parts(std::size_t index) const { return parts_[index]; }

  [[nodiscard]] int workers() const { return workers_->count(); }
  /// For products that are large enough to be shared; null on a device. Lives as long as this, wherever that moves.
  [[nodiscard]] linalg::Workers* product_workers() const;
  /// Views that step_batches may step together with view `index`, itself among them (stepped_together).
  [[nodiscard]] std::int64_t together(std::size_t index) const { return groups_[group_of_[index]].together; }
  /// Numbers of all views that a worker may be called with.
  [[nodiscard]] std::span<const std::size_t> of_worker(int worker) const;

  /// Calls step(index, worker, result) for each matrix with elements that the input means, when the observer has seen
  /// it: it returns false where the matrix could not be stepped. Several workers call it at once, with one matrix each;
  /// one alone, and all where there is an observer, in canonical order. The result is in that order in any case. Throws
  /// as check(input), and what step throws with the matrix's name before it; other matrices may have been stepped then.
  template <class Step>
  StepResult step_each(const StepInput& input, const char* region, const Step& step);

  /// Of one matrix.
  struct Outcome {
    bool wanted = false;
    bool stepped = false;
    StepResult result;
    double seconds = 0;
    std::exception_ptr error;
  };

  /// As step_each, but calls step(matrices, worker) with the numbers of several matrices of one shape where there are
  /// such to be stepped together, and no observer; it sets `stepped` and `result` of the outcome of each. Shapes come
  /// in the order of their first matrix then.
  template <class Step>
  StepResult step_batches(const StepInput& input, const char* region, const Step& step);
  [[nodiscard]] Outcome& outcome(std::size_t index) { return outcomes_[index]; }

  /// To the observer, if there is one, the update of a whole part; that of a block of one is not shown.
  void show(const StepInput& input, std::size_t index, const MatrixPart& block, MatrixView<const float> update,
            double residual = std::numeric_limits<double>::quiet_NaN()) const;

 private:
  /// Matrices with parts of the same extents, in canonical order.
  struct Group {
    std::vector<std::size_t> matrices;
    std::int64_t together = 1;  ///< at most
  };

  void add_to_group(std::size_t index, const OptimizerCost& cost);
  void begin(const StepInput& input);
  template <class Step>
  void step_some(std::span<const std::size_t> matrices, int worker, const Step& step);
  template <class Step>
  void step_groups(const Step& step);
  [[nodiscard]] StepResult gathered() const;
  /// From a handler of what the step of a matrix has thrown: that, with the matrix's name before it.
  [[nodiscard]] std::exception_ptr named_error(std::size_t index) const;

  std::string_view optimizer_;
  std::vector<ParameterView> views_;
  std::vector<std::vector<MatrixPart>> parts_;
  std::vector<Outcome> outcomes_;
  std::vector<Group> groups_;  ///< in the order of their first matrix
  std::vector<std::size_t> group_of_;
  bool in_groups_ = false;  ///< some are stepped together
  WorkerLists lists_;
  std::unique_ptr<linalg::Workers> workers_;
};

/// What is thrown for several has the name of the first.
template <class Step>
void Matrices::step_some(std::span<const std::size_t> matrices, int worker, const Step& step) {
  const auto start = std::chrono::steady_clock::now();
  try {
    step(matrices, worker);
  } catch (...) {
    outcomes_[matrices.front()].error = named_error(matrices.front());
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (const std::size_t i : matrices)
    outcomes_[i].seconds = seconds / static_cast<double>(matrices.size());
}

template <class Step>
void Matrices::step_groups(const Step& step) {
  std::vector<std::size_t> batch;
  for (const Group& group : groups_) {
    for (std::size_t next = 0; next < group.matrices.size();) {
      batch.clear();
      for (; next < group.matrices.size() && static_cast<std::int64_t>(batch.size()) < group.together; ++next) {
        if (outcomes_[group.matrices[next]].wanted) batch.push_back(group.matrices[next]);
      }
      if (batch.empty()) continue;
      const Region region(views_[batch.front()].spec->name);
      step_some(batch, 0, step);
      if (outcomes_[batch.front()].error) return;
    }
  }
}

template <class Step>
StepResult Matrices::step_each(const StepInput& input, const char* region, const Step& step) {
  return step_batches(input, region, [&](std::span<const std::size_t> matrices, int worker) {
    for (const std::size_t i : matrices)
      outcomes_[i].stepped = step(i, worker, outcomes_[i].result);
  });
}

template <class Step>
StepResult Matrices::step_batches(const StepInput& input, const char* region, const Step& step) {
  check(input, optimizer_);
  const Region all(region);
  begin(input);
  std::atomic<bool> failed = false;
  const bool in_order = workers() == 1 || input.observer != nullptr;
  const auto in_canonical_order = [&] {
    for (std::size_t i = 0; i < views_.size() && !failed; ++i) {
      if (!outcomes_[i].wanted) continue;
      if (input.observer != nullptr) input.observer->before_step(views_[i]);
      const Region one(views_[i].spec->name);
      step_some(std::span(&i, 1), 0, step);
      failed = outcomes_[i].error != nullptr;
    }
  };
  workers_->run([&](std::int64_t worker) {
    if (in_groups_ && input.observer == nullptr) {
      step_groups(step);
      return;
    }
    if (in_order) {
      if (worker == 0) in_canonical_order();
      return;
    }
    for (const std::size_t i : lists_.of(static_cast<int>(worker))) {
      if (failed) return;
      step_some(std::span(&i, 1), static_cast<int>(worker), step);
      if (outcomes_[i].error != nullptr) failed = true;
    }
  });
  return gathered();
}

}  // namespace matrixfsdp::detail

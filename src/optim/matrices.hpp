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
  /// Numbers of all views that a worker may be called with.
  [[nodiscard]] std::span<const std::size_t> of_worker(int worker) const;

  /// Calls step(index, worker, result) for each matrix with elements that the input means, when the observer has seen
  /// it: it returns false where the matrix could not be stepped. Several workers call it at once, with one matrix each;
  /// one alone, and all where there is an observer, in canonical order. The result is in that order in any case. Throws
  /// as check(input), and what step throws with the matrix's name before it; other matrices may have been stepped then.
  template <class Step>
  StepResult step_each(const StepInput& input, const char* region, const Step& step);

  /// To the observer, if there is one, the update of a whole part; that of a block of one is not shown.
  void show(const StepInput& input, std::size_t index, const MatrixPart& block, MatrixView<const float> update,
            double residual = std::numeric_limits<double>::quiet_NaN()) const;

 private:
  /// Of one matrix.
  struct Outcome {
    bool wanted = false;
    bool stepped = false;
    StepResult result;
    double seconds = 0;
    std::exception_ptr error;
  };

  void begin(const StepInput& input);
  template <class Step>
  void step_one(std::size_t index, int worker, const Step& step);
  [[nodiscard]] StepResult gathered() const;
  /// From a handler of what the step of a matrix has thrown: that, with the matrix's name before it.
  [[nodiscard]] std::exception_ptr named_error(std::size_t index) const;

  std::string_view optimizer_;
  std::vector<ParameterView> views_;
  std::vector<std::vector<MatrixPart>> parts_;
  std::vector<Outcome> outcomes_;
  WorkerLists lists_;
  std::unique_ptr<linalg::Workers> workers_;
};

template <class Step>
void Matrices::step_one(std::size_t index, int worker, const Step& step) {
  Outcome& outcome = outcomes_[index];
  const auto start = std::chrono::steady_clock::now();
  try {
    outcome.stepped = step(index, worker, outcome.result);
  } catch (...) {
    outcome.error = named_error(index);
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <class Step>
StepResult Matrices::step_each(const StepInput& input, const char* region, const Step& step) {
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
      step_one(i, 0, step);
      failed = outcomes_[i].error != nullptr;
    }
  };
  workers_->run([&](std::int64_t worker) {
    if (in_order) {
      if (worker == 0) in_canonical_order();
      return;
    }
    for (const std::size_t i : lists_.of(static_cast<int>(worker))) {
      if (failed) return;
      step_one(i, static_cast<int>(worker), step);
      if (outcomes_[i].error != nullptr) failed = true;
    }
  });
  return gathered();
}

}  // namespace matrixfsdp::detail

#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include <matrixfsdp/optim/optimizer.hpp>

#include "optim/views.hpp"

namespace matrixfsdp::detail {

/// The whole matrices that a matrix optimizer steps one by one, and what every such optimizer does alike around the
/// step of one: order, checks, regions, times, and the count of what was stepped or has failed.
class Matrices {
 public:
  Matrices() = default;
  /// Throws ContractError for a view that is not of kind matrix and whole, and as canonical().
  Matrices(std::vector<ParameterView> views, std::string_view optimizer);

  [[nodiscard]] const std::vector<ParameterView>& views() const { return views_; }
  /// As matrix_parts has them, of view `index`.
  [[nodiscard]] const std::vector<MatrixPart>& parts(std::size_t index) const { return parts_[index]; }

  /// Calls step(index, result) for each matrix with elements that the input means, in order, when the observer has seen
  /// it: it returns false where the matrix could not be stepped. Throws as check(input).
  template <class Step>
  StepResult step_each(const StepInput& input, const char* region, const Step& step) const;

  /// To the observer, if there is one, the update of a whole part; that of a block of one is not shown.
  void show(const StepInput& input, std::size_t index, const MatrixPart& block, MatrixView<const float> update,
            double residual = std::numeric_limits<double>::quiet_NaN()) const;

 private:
  std::string_view optimizer_;
  std::vector<ParameterView> views_;
  std::vector<std::vector<MatrixPart>> parts_;
};

template <class Step>
StepResult Matrices::step_each(const StepInput& input, const char* region, const Step& step) const {
  check(input, optimizer_);
  const Region all(region);
  StepResult result;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    if (views_[i].elements.empty() || !is_of(input.unit, views_[i])) continue;
    if (input.observer != nullptr) input.observer->before_step(views_[i]);
    const auto start = std::chrono::steady_clock::now();
    const ParameterSpec& spec = *views_[i].spec;
    const Region one(spec.name);
    if (!step(i, result)) {
      result.failed.push_back(spec.name);
      continue;
    }
    result.matrices_orthogonalized += static_cast<std::int64_t>(parts_[i].size());
    result.seconds.push_back({&spec, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()});
  }
  return result;
}

}  // namespace matrixfsdp::detail

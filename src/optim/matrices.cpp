#include "optim/matrices.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/shape.hpp>

#include "tensor/for_range.hpp"

namespace matrixfsdp::detail {
namespace {

void check_is_whole_matrix(const ParameterView& view, std::string_view optimizer) {
  const std::int64_t count = element_count(view.spec->shape);
  if (view.kind == ParameterKind::matrix && view.elements == Interval{0, count}) return;
  throw ContractError(fmt::format("{}: {} is the {} elements [{}, {}) of {}, expected a whole matrix", optimizer,
                                  view.spec->name, name_of(view.kind), view.elements.begin, view.elements.end, count));
}

}  // namespace

Matrices::Matrices(std::vector<ParameterView> views, std::string_view optimizer, const OptimizerCost& cost)
    : optimizer_(optimizer),
      views_(canonical(std::move(views), optimizer)),
      outcomes_(views_.size()),
      workers_(std::make_unique<linalg::Workers>(views_.empty() ? std::min(1, cost.workers) : cost.workers)) {
  std::vector<std::int64_t> costs;
  for (const ParameterView& view : views_) {
    check_is_whole_matrix(view, optimizer);
    parts_.push_back(matrix_parts(*view.spec));
    costs.push_back(step_flops(*view.spec, cost));
    add_to_group(parts_.size() - 1, cost);
  }
  lists_ = WorkerLists(std::move(costs), workers_->count());
}

void Matrices::add_to_group(std::size_t index, const OptimizerCost& cost) {
  const auto same_extents = [](const MatrixPart& one, const MatrixPart& other) {
    return one.rows == other.rows && one.cols == other.cols;
  };
  const auto alike = [&](const Group& group) {
    return std::ranges::equal(parts_[index], parts_[group.matrices.front()], same_extents);
  };
  const auto found = std::find_if(groups_.begin(), groups_.end(), alike);
  group_of_.push_back(static_cast<std::size_t>(found - groups_.begin()));
  if (found == groups_.end()) groups_.push_back({{}, stepped_together(*views_[index].spec, cost)});
  Group& group = groups_[group_of_.back()];
  group.matrices.push_back(index);
  in_groups_ = in_groups_ || group.together > 1;
}

linalg::Workers* Matrices::product_workers() const {
  return kernels_run_on_host ? workers_.get() : nullptr;
}

std::span<const std::size_t> Matrices::of_worker(int worker) const {
  return lists_.most_of(worker);
}

void Matrices::begin(const StepInput& input) {
  for (std::size_t i = 0; i < views_.size(); ++i) {
    outcomes_[i] = {};
    outcomes_[i].wanted = !views_[i].elements.empty() && is_of(input.unit, views_[i]);
  }
  lists_.assign([this](std::size_t i) { return outcomes_[i].wanted; });
}

StepResult Matrices::gathered() const {
  StepResult all;
  for (std::size_t i = 0; i < views_.size(); ++i) {
    const Outcome& outcome = outcomes_[i];
    if (outcome.error) std::rethrow_exception(outcome.error);
    if (!outcome.wanted) continue;
    all.flops += outcome.result.flops;
    if (!outcome.stepped) {
      all.failed.push_back(views_[i].spec->name);
      continue;
    }
    all.matrices_orthogonalized += static_cast<std::int64_t>(parts_[i].size());
    all.seconds.push_back({views_[i].spec, outcome.seconds});
  }
  return all;
}

std::exception_ptr Matrices::named_error(std::size_t index) const {
  const std::string& name = views_[index].spec->name;
  try {
    throw;
  } catch (const InputError& error) {
    return std::make_exception_ptr(InputError(fmt::format("{}, {}: {}", optimizer_, name, error.what())));
  } catch (const ContractError& error) {
    return std::make_exception_ptr(ContractError(fmt::format("{}, {}: {}", optimizer_, name, error.what())));
  } catch (const std::exception& error) {
    return std::make_exception_ptr(Error(fmt::format("{}, {}: {}", optimizer_, name, error.what())));
  } catch (...) {
    return std::current_exception();
  }
}

void Matrices::show(const StepInput& input, std::size_t index, const MatrixPart& block, MatrixView<const float> update,
                    double residual) const {
  if (input.observer == nullptr) return;
  for (const MatrixPart& part : parts_[index]) {
    if (part.offset == block.offset && part.rows == block.rows && part.cols == block.cols)
      input.observer->update(views_[index], part, update, residual);
  }
}

}  // namespace matrixfsdp::detail

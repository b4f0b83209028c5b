#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/worker_lists.hpp>

namespace matrixfsdp {
namespace {

constexpr std::int64_t adamw_flops_per_element = 12;
constexpr std::int64_t muon_flops_per_element = 6;
constexpr std::int64_t element_bytes = 4;  // weights, gradients and state are float32

bool keeps_factors(MatrixOptimizer optimizer) {
  return optimizer == MatrixOptimizer::shampoo || optimizer == MatrixOptimizer::soap;
}

/// Of all blocks of a matrix.
std::int64_t factored_flops(const ParameterSpec& parameter, MatrixOptimizer optimizer, const PreconditionerCost& cost) {
  PreconditionerFlops all;
  for (const MatrixPart& block : preconditioned_blocks(parameter, optimizer, cost)) {
    const PreconditionerFlops one = preconditioner_flops(block.rows, block.cols, optimizer, cost);
    all.step += one.step;
    all.refresh += one.refresh;
  }
  return all.step + all.refresh / cost.frequency;
}

/// Numbers, of a whole matrix.
std::int64_t factored_state(const ParameterSpec& parameter, MatrixOptimizer optimizer, const PreconditionerCost& cost) {
  const std::int64_t elements = element_count(parameter.shape);
  if (elements == 0) return 0;
  const FactorElements factors = factor_elements(preconditioned_blocks(parameter, optimizer, cost));
  const std::int64_t of_factors = 2 * (factors.left + factors.right);
  if (optimizer == MatrixOptimizer::soap) return 2 * elements + of_factors + soap_counters;
  return (cost.grafting == Grafting::adam ? 2 : 1) * elements + of_factors + shampoo_counters;
}

}  // namespace

std::string_view name_of(NewtonSchulzAlgorithm algorithm) {
  switch (algorithm) {
    case NewtonSchulzAlgorithm::standard:
      return "standard";
    case NewtonSchulzAlgorithm::gram:
      return "gram";
    case NewtonSchulzAlgorithm::gram_no_restart:
      return "gram-no-restart";
    case NewtonSchulzAlgorithm::automatic:
      return "auto";
  }
  throw ContractError(
      fmt::format("Newton-Schulz algorithm {}: expected one of the enumeration's", static_cast<int>(algorithm)));
}

NewtonSchulzAlgorithm parse_newton_schulz_algorithm(std::string_view name) {
  for (const NewtonSchulzAlgorithm algorithm :
       {NewtonSchulzAlgorithm::standard, NewtonSchulzAlgorithm::gram, NewtonSchulzAlgorithm::gram_no_restart,
        NewtonSchulzAlgorithm::automatic}) {
    if (name == name_of(algorithm)) return algorithm;
  }
  throw InputError(fmt::format("Newton-Schulz algorithm '{}': expected standard, gram, gram-no-restart or auto", name));
}

NewtonSchulzAlgorithm resolve(NewtonSchulzAlgorithm algorithm, std::int64_t rows, std::int64_t cols, int steps,
                              DType dtype) {
  if (algorithm != NewtonSchulzAlgorithm::automatic) return algorithm;
  constexpr int most_gram_steps = 8;
  if (steps > most_gram_steps || dtype == DType::bfloat16) return NewtonSchulzAlgorithm::standard;
  const std::int64_t small = std::min(rows, cols);
  const std::int64_t large = std::max(rows, cols);
  // large >= 1.5 small, without overflow.
  return large - small >= small - small / 2 ? NewtonSchulzAlgorithm::gram : NewtonSchulzAlgorithm::standard;
}

MatrixOptimizer optimizer_of(const ParameterSpec& parameter, const OptimizerCost& cost) {
  if (kind_of(parameter) != ParameterKind::matrix) return MatrixOptimizer::adamw;
  if (!keeps_factors(cost.matrices)) return cost.matrices;
  for (const MatrixPart& part : matrix_parts(parameter)) {
    if (std::max(part.rows, part.cols) > cost.preconditioner.largest_dimension) return MatrixOptimizer::adamw;
  }
  return cost.matrices;
}

std::int64_t newton_schulz_slots(const MatrixPart& part, const OptimizerCost& cost) {
  if (!cost.batches) return 1;
  return newton_schulz_batch(part.rows, part.cols, cost.newton_schulz_steps, cost.algorithm, cost.newton_schulz_dtype);
}

std::int64_t newton_schulz_flops(const MatrixPart& part, const OptimizerCost& cost) {
  return newton_schulz_flops(part.rows, part.cols, cost.newton_schulz_steps, cost.algorithm, cost.newton_schulz_dtype,
                             newton_schulz_slots(part, cost) > 1);
}

std::int64_t stepped_together(const ParameterSpec& parameter, const OptimizerCost& cost) {
  if (!cost.batches || optimizer_of(parameter, cost) != MatrixOptimizer::muon) return 1;
  const std::vector<MatrixPart> parts = matrix_parts(parameter);
  std::int64_t together = newton_schulz_batch_tiles;
  for (const MatrixPart& part : parts) {
    const std::int64_t alike = std::count_if(parts.begin(), parts.end(), [&](const MatrixPart& other) {
      return other.rows == part.rows && other.cols == part.cols;
    });
    together = std::min(together, newton_schulz_slots(part, cost) / alike);
  }
  return std::max<std::int64_t>(1, together);
}

std::int64_t stepped_matrix_count(const ModelSpec& model, const OptimizerCost& cost) {
  std::int64_t count = 0;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.frozen || optimizer_of(parameter, cost) == MatrixOptimizer::adamw) continue;
      if (element_count(parameter.shape) > 0) count += static_cast<std::int64_t>(matrix_parts(parameter).size());
    }
  }
  return count;
}

std::int64_t step_flops(const ParameterSpec& parameter, const OptimizerCost& cost) {
  if (parameter.frozen) return 0;
  const std::int64_t elements = element_count(parameter.shape);
  const MatrixOptimizer optimizer = optimizer_of(parameter, cost);
  if (optimizer == MatrixOptimizer::adamw) return adamw_flops_per_element * elements;
  if (keeps_factors(optimizer)) return factored_flops(parameter, optimizer, cost.preconditioner);
  std::int64_t flops = muon_flops_per_element * elements;
  for (const MatrixPart& part : matrix_parts(parameter))
    flops += newton_schulz_flops(part, cost);
  return flops;
}

std::int64_t state_bytes(const ParameterSpec& parameter, std::int64_t elements, const OptimizerCost& cost) {
  if (parameter.frozen) return 0;
  const MatrixOptimizer optimizer = optimizer_of(parameter, cost);
  if (!keeps_factors(optimizer)) return element_bytes * (optimizer == MatrixOptimizer::muon ? 1 : 2) * elements;
  if (elements != element_count(parameter.shape)) {
    throw ContractError(
        fmt::format("{}: state of {} elements under {}, expected all {}: its factors are those of the "
                    "whole matrix",
                    parameter.name, elements, name_of(optimizer), element_count(parameter.shape)));
  }
  return element_bytes * factored_state(parameter, optimizer, cost.preconditioner);
}

std::int64_t resident_bytes(const ParameterSpec& parameter, std::int64_t elements, const OptimizerCost& cost) {
  if (parameter.frozen) return element_bytes * elements;
  return 2 * element_bytes * elements + state_bytes(parameter, elements, cost);
}

void MatrixScratch::include(const ParameterSpec& parameter, const OptimizerCost& cost) {
  const MatrixOptimizer optimizer = optimizer_of(parameter, cost);
  if (keeps_factors(optimizer)) {
    preconditioner.include(preconditioner_scratch(parameter, optimizer, cost.preconditioner));
  } else if (optimizer == MatrixOptimizer::muon) {
    direction = std::max(direction, stepped_together(parameter, cost) * element_count(parameter.shape));
    for (const MatrixPart& part : matrix_parts(parameter))
      newton_schulz.include(newton_schulz_scratch(part.rows, part.cols, cost.algorithm, cost.newton_schulz_steps,
                                                  cost.newton_schulz_dtype, newton_schulz_slots(part, cost)));
  }
}

std::int64_t matrix_scratch_bytes(const std::vector<const ParameterSpec*>& parameters, const OptimizerCost& cost) {
  std::vector<const ParameterSpec*> stepped;
  std::vector<std::int64_t> costs;
  for (const ParameterSpec* parameter : parameters) {
    if (optimizer_of(*parameter, cost) == MatrixOptimizer::adamw) continue;
    stepped.push_back(parameter);
    costs.push_back(step_flops(*parameter, cost));
  }
  // Others have nothing to do.
  const auto workers = static_cast<int>(
      std::min<std::int64_t>(cost.workers, std::max<std::int64_t>(1, static_cast<std::int64_t>(stepped.size()))));
  const WorkerLists lists(std::move(costs), workers);
  std::int64_t bytes = 0;
  for (int worker = 0; worker < workers; ++worker) {
    MatrixScratch scratch;
    for (const std::size_t index : lists.most_of(worker))
      scratch.include(*stepped[index], cost);
    bytes += scratch.bytes();
  }
  return bytes;
}

}  // namespace matrixfsdp

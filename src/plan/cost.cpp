#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/cost.hpp>

namespace matrixfsdp {
namespace {

constexpr std::int64_t adamw_flops_per_element = 12;
constexpr std::int64_t muon_flops_per_element = 6;
constexpr std::int64_t element_bytes = 4;  // weights, gradients and state are float32

bool uses_matrix_optimizer(const ParameterSpec& parameter, const OptimizerCost& cost) {
  return !cost.matrices_on_adamw && kind_of(parameter) == ParameterKind::matrix;
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

std::int64_t step_flops(const ParameterSpec& parameter, const OptimizerCost& cost) {
  if (parameter.frozen) return 0;
  const std::int64_t elements = element_count(parameter.shape);
  if (!uses_matrix_optimizer(parameter, cost)) return adamw_flops_per_element * elements;
  std::int64_t flops = muon_flops_per_element * elements;
  for (const MatrixPart& part : matrix_parts(parameter)) {
    flops +=
        newton_schulz_flops(part.rows, part.cols, cost.newton_schulz_steps, cost.algorithm, cost.newton_schulz_dtype);
  }
  return flops;
}

std::int64_t state_elements(const ParameterSpec& parameter, const OptimizerCost& cost) {
  if (parameter.frozen) return 0;
  return uses_matrix_optimizer(parameter, cost) ? 1 : 2;
}

std::int64_t resident_bytes_per_element(const ParameterSpec& parameter, const OptimizerCost& cost) {
  if (parameter.frozen) return element_bytes;
  return element_bytes * (2 + state_elements(parameter, cost));
}

}  // namespace matrixfsdp

#include "plan/strategy_matrices.hpp"

#include <utility>

#include <matrixfsdp/plan/worker_lists.hpp>

namespace matrixfsdp {

namespace detail {

std::vector<TrainableMatrix> trainable_matrices(const ModelSpec& model) {
  std::vector<TrainableMatrix> matrices;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::vector<ParameterSpec>& parameters = model.units[u].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (!parameters[p].frozen && kind_of(parameters[p]) == ParameterKind::matrix)
        matrices.push_back({u, p, &parameters[p]});
    }
  }
  return matrices;
}

std::int64_t row_elements_of(const ParameterSpec& parameter, int rank, int world_size) {
  std::int64_t elements = 0;
  for (const RowBlock& block : row_blocks(parameter))
    elements += row_elements(block, rank, world_size).size();
  return elements;
}

}  // namespace detail

std::vector<std::vector<std::int64_t>> orthogonalizing_rounds(const ModelSpec& model, int world_size,
                                                              const OptimizerCost& cost) {
  const std::vector<detail::TrainableMatrix> matrices = detail::trainable_matrices(model);
  std::vector<std::int64_t> flops;
  for (const detail::TrainableMatrix& matrix : matrices)
    flops.push_back(step_flops(*matrix.spec, cost));
  WorkerLists lists(std::move(flops), world_size);
  lists.assign([](std::size_t) { return true; });
  std::vector<std::vector<std::int64_t>> rounds;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::span<const std::size_t> taken = lists.of(rank);
    while (rounds.size() < taken.size())
      rounds.emplace_back(static_cast<std::size_t>(world_size), -1);
    for (std::size_t k = 0; k < taken.size(); ++k)
      rounds[k][static_cast<std::size_t>(rank)] = static_cast<std::int64_t>(taken[k]);
  }
  return rounds;
}

}  // namespace matrixfsdp

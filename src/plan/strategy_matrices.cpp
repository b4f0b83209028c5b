#include "plan/strategy_matrices.hpp"

#include <algorithm>
#include <numeric>

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

SegmentTable row_table(std::int64_t rows, std::int64_t cols, int world_size) {
  SegmentTable table;
  table.size = rows * cols;
  for (int rank = 0; rank < world_size; ++rank)
    table.intervals.push_back({row_elements({0, rows, cols}, rank, world_size), {table.size, table.size}});
  return table;
}

}  // namespace detail

std::vector<std::vector<std::int64_t>> orthogonalizing_rounds(const ModelSpec& model, int world_size,
                                                              const OptimizerCost& cost) {
  const std::vector<detail::TrainableMatrix> matrices = detail::trainable_matrices(model);
  std::vector<std::int64_t> flops;
  for (const detail::TrainableMatrix& matrix : matrices)
    flops.push_back(step_flops(*matrix.spec, cost));
  std::vector<std::size_t> order(matrices.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return flops[a] > flops[b]; });
  std::vector<std::int64_t> loads(static_cast<std::size_t>(world_size), 0);
  std::vector<std::size_t> taken(loads.size(), 0);
  std::vector<std::vector<std::int64_t>> rounds;
  for (const std::size_t matrix : order) {
    const auto lightest = std::min_element(loads.begin(), loads.end());
    const auto rank = static_cast<std::size_t>(lightest - loads.begin());
    *lightest += flops[matrix];
    if (taken[rank] == rounds.size()) rounds.emplace_back(loads.size(), -1);
    rounds[taken[rank]++][rank] = static_cast<std::int64_t>(matrix);
  }
  return rounds;
}

}  // namespace matrixfsdp

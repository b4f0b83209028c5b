#pragma once

#include <vector>

#include <matrixfsdp/plan/row_shards.hpp>
#include <matrixfsdp/plan/strategy.hpp>

namespace matrixfsdp::detail {

/// A trainable matrix parameter.
struct TrainableMatrix {
  std::size_t unit = 0;
  std::size_t parameter = 0;
  const ParameterSpec* spec = nullptr;

  [[nodiscard]] std::int64_t size() const { return element_count(spec->shape); }
};

/// In canonical order.
std::vector<TrainableMatrix> trainable_matrices(const ModelSpec& model);

/// Elements that `rank` holds of a parameter in row shards.
std::int64_t row_elements_of(const ParameterSpec& parameter, int rank, int world_size);

/// The row shards of a rows x cols matrix as a table.
SegmentTable row_table(std::int64_t rows, std::int64_t cols, int world_size);

/// Scratch of the optimizer of each rank: bytes.
std::vector<std::int64_t> strategy_workspaces(StrategyKind kind, const ModelSpec& model, const Plan& plan,
                                              const StrategyCostOptions& options);

/// FLOPs of the optimizer step of each rank.
std::vector<std::int64_t> strategy_flops(StrategyKind kind, const ModelSpec& model, const Plan& plan,
                                         const StrategyCostOptions& options);

}  // namespace matrixfsdp::detail

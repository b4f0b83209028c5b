#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>

#include "fsdp/row_norm.hpp"
#include "fsdp/square_sums.hpp"

namespace matrixfsdp {
namespace {

constexpr std::int64_t lanes = 8;

/// Sum of squares of norm_block elements at most, in double, in a fixed order: `lanes` partial sums, then those in
/// order.
KOKKOS_INLINE_FUNCTION double block_square_sum(const float* values, std::int64_t count) {
  double partial[lanes] = {0, 0, 0, 0, 0, 0, 0, 0};
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const double value = values[i + lane];
      partial[lane] += value * value;
    }
  }
  for (std::int64_t lane = 0; i < count; ++i, ++lane) {
    const double value = values[i];
    partial[lane] += value * value;
  }
  double sum = 0;
  for (std::int64_t lane = 0; lane < lanes; ++lane)
    sum += partial[lane];
  return sum;
}

}  // namespace

std::vector<double> block_square_sums(const TensorView<float>& values) {
  const auto size = static_cast<std::int64_t>(values.size());
  const std::int64_t blocks = (size + norm_block - 1) / norm_block;
  const Tensor<double> sums = make_tensor<double>("norm blocks", blocks);
  const float* data = values.data();
  Kokkos::parallel_for(
      "matrixfsdp::fsdp::norm", Kokkos::RangePolicy<ExecutionSpace>(0, blocks), KOKKOS_LAMBDA(const std::int64_t b) {
        const std::int64_t begin = b * norm_block;
        const std::int64_t rest = size - begin;
        sums(static_cast<std::size_t>(b)) = block_square_sum(data + begin, rest < norm_block ? rest : norm_block);
      });
  Kokkos::fence();
  return {sums.data(), sums.data() + blocks};
}

namespace {

double fold(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values)
    sum += value;
  return sum;
}

bool is_whole(const ParameterSpec& spec, Interval elements) {
  return elements.size() == element_count(spec.shape);
}

}  // namespace

void append_square_sums(const ParameterView& view, std::vector<double>& sums) {
  const std::vector<double> blocks = block_square_sums(view.gradient);
  if (is_whole(*view.spec, view.elements)) {
    sums.push_back(fold(blocks));
  } else {
    sums.insert(sums.end(), blocks.begin(), blocks.end());
  }
}

namespace {

/// Canonical fold of all ranks' square sums, in canonical order of each rank's segments.
double fold_all(const ShardedModel& model, const std::vector<std::vector<double>>& contributions) {
  std::vector<std::size_t> cursor(contributions.size(), 0);
  double total = 0;
  for (std::size_t u = 0; u < model.unit_count(); ++u) {
    const UnitSpec& unit = model.spec().units[u];
    // Per parameter, its segments by first element: (elements, rank).
    std::vector<std::vector<Segment>> segments(unit.parameters.size());
    for (const Segment& segment : model.plan().units[u].gradients.segments) {
      if (!segment.elements.empty()) segments[segment.parameter].push_back(segment);
    }
    for (std::size_t p = 0; p < unit.parameters.size(); ++p) {
      double sum = 0;
      for (const Segment& segment : segments[p]) {
        const auto rank = static_cast<std::size_t>(segment.rank);
        const bool whole = is_whole(unit.parameters[p], segment.elements);
        const std::int64_t blocks = whole ? 1 : (segment.elements.size() + norm_block - 1) / norm_block;
        for (std::int64_t b = 0; b < blocks; ++b)
          sum += contributions[rank].at(cursor[rank]++);
      }
      total += sum;
    }
  }
  return total;
}

}  // namespace

GradientNorm gradient_norm(ShardedModel& model, std::int64_t failures) {
  if (!model.gradients_ready()) {
    throw ContractError("gradient norm: expected every unit to be reduced in every pass of the step first");
  }
  const bool whole = model.plan().replicated || model.plan().world_size == 1;
  const bool rows = model.plan().row_shards && !whole;
  std::vector<double> mine = rows ? row_square_sums(model) : model.gradient_square_sums();
  GradientNorm result;
  Communicator& communicator = model.communicator();
  double square = 0;
  if (whole) {
    // Every rank holds everything: the same bits without asking anyone. `fold` per parameter, then over parameters.
    square = fold(mine);
    result.failures = failures;
  } else {
    mine.push_back(static_cast<double>(failures));
    const auto parts =
        communicator.all_gather(Purpose::clip, std::as_bytes(std::span(mine)), {"norm exchange", "", "step"});
    // Every shard group has the same, so one is enough.
    const RankGroup group = model.shard_group();
    std::vector<std::vector<double>> contributions;
    const std::span all(parts);
    for (const auto& part : all.subspan(static_cast<std::size_t>(group.first), static_cast<std::size_t>(group.size))) {
      std::vector<double> values(part.size() / sizeof(double));
      std::memcpy(values.data(), part.data(), part.size());
      result.failures += static_cast<std::int64_t>(values.back());
      contributions.push_back(std::move(values));
    }
    square = rows ? fold_row_sums(model, contributions) : fold_all(model, contributions);
  }
  result.norm = std::sqrt(square);
  result.finite = std::isfinite(result.norm);
  return result;
}

double clip_scale(double norm, double max_norm) {
  return max_norm > 0 && norm > max_norm ? max_norm / norm : 1.0;
}

}  // namespace matrixfsdp

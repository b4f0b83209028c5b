#include "plan/time/optimizer.hpp"

#include <algorithm>

#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/row_shards.hpp>
#include <matrixfsdp/plan/strategy.hpp>

namespace matrixfsdp::detail {
namespace {

/// Calls visit(parameter) for each matrix that a matrix optimizer steps, in canonical order.
template <class Visit>
void each_matrix(const ModelSpec& model, const OptimizerCost& cost, const Visit& visit) {
  if (cost.matrices == MatrixOptimizer::adamw) return;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (!parameter.frozen && kind_of(parameter) == ParameterKind::matrix) visit(parameter);
    }
  }
}

/// What the slowest rank computes, and reads and writes.
double local_seconds(const Machine& machine, const std::vector<StrategyLoad>& loads, double bytes_scale) {
  double most = 0;
  for (std::size_t rank = 0; rank < loads.size(); ++rank) {
    const double products = static_cast<double>(loads[rank].flops) / machine.orthogonalize_flops_per_second;
    const double bytes = 2 * bytes_scale * static_cast<double>(loads[rank].resident_bytes);
    most =
        std::max(most, machine.slowness(static_cast<int>(rank)) * (products + bytes / machine.memory_bytes_per_second));
  }
  return most;
}

class Traffic {
 public:
  Traffic(const Machine& machine, const ModelSpec& model, const StepOptions& options, double element_bytes,
          Transfers& transfers)
      : machine_(machine),
        world_size_(static_cast<int>(machine.ranks())),
        model_(model),
        options_(options),
        cost_(options.cost.memory.optimizer),
        element_bytes_(element_bytes),
        transfers_(transfers) {}

  /// fsdp2: before the products of every Newton-Schulz step.
  [[nodiscard]] double every_step() const {
    double seconds = 0;
    each_matrix(model_, cost_, [&](const ParameterSpec& parameter) {
      for (const MatrixPart& part : matrix_parts(parameter)) {
        const std::int64_t gram = part.cols * part.cols;
        const double step = part.rows <= part.cols
                                ? gather(part.rows * part.cols)
                                : transfers_.reduce(even_table(gram, world_size_), element_bytes_, 1) + gather(gram);
        seconds += cost_.newton_schulz_steps * (step + options_.arrival_seconds);
      }
    });
    return seconds;
  }

  /// fsdp2: beside the products, on the slowest rank with the most rows.
  [[nodiscard]] double copies() const {
    double elements = 0;
    each_matrix(model_, cost_, [&](const ParameterSpec& parameter) {
      for (const MatrixPart& part : matrix_parts(parameter)) {
        const std::int64_t most = row_chunk(part.rows, 0, world_size_).size();
        elements += static_cast<double>(
            sharded_newton_schulz_copies(part.rows, part.cols, most, most, world_size_, cost_.newton_schulz_steps));
      }
    });
    double slowest = 1;
    for (const SlowRank& rank : machine_.slow_ranks)
      slowest = std::max(slowest, rank.factor);
    return slowest * elements * element_bytes_ / machine_.memory_bytes_per_second;
  }

  /// fsdp2-gather: each matrix once, beside the products of the one before, which take their share of `local`.
  [[nodiscard]] double ahead(double local) const {
    std::vector<UnitSeconds> matrices;
    double flops = 0;
    each_matrix(model_, cost_, [&](const ParameterSpec& parameter) {
      const auto work = static_cast<double>(step_flops(parameter, cost_));
      matrices.push_back({gather(element_count(parameter.shape)), work, 0, 0, false});
      flops += work;
    });
    for (UnitSeconds& matrix : matrices)
      matrix.forward *= flops > 0 ? local / flops : 0;
    return matrices.empty() ? local : forward_seconds(matrices, 0, options_.cost.matrices_ahead);
  }

  /// fsdp2-alltoall: each matrix to one rank, and back.
  [[nodiscard]] double there_and_back() const {
    std::vector<double> sizes;
    each_matrix(model_, cost_, [&](const ParameterSpec& parameter) {
      sizes.push_back(static_cast<double>(element_count(parameter.shape)));
    });
    if (sizes.empty()) return 0;
    std::vector<double> elements(static_cast<std::size_t>(world_size_), 0.0);
    for (const auto& round : orthogonalizing_rounds(model_, world_size_, cost_)) {
      for (std::size_t rank = 0; rank < round.size(); ++rank) {
        if (round[rank] >= 0) elements[rank] += sizes[static_cast<std::size_t>(round[rank])];
      }
    }
    const double others = static_cast<double>(world_size_ - 1) / world_size_;
    return 2 * transfers_.exchange(element_bytes_ * others * *std::max_element(elements.begin(), elements.end()));
  }

  /// zero1-owner: new weights. Those of all units are under way together, and so balanced as the whole model is.
  [[nodiscard]] double weights(const Plan& plan) const {
    SegmentTable all;
    for (int rank = 0; rank < world_size_; ++rank) {
      const std::int64_t begin = all.size;
      for (const UnitPlan& unit : plan.units)
        all.size += unit.gradients.size > 0 ? segment_table(unit.weights).shard_size(rank) : 0;
      all.intervals.push_back({Interval{begin, all.size}, Interval{}});
    }
    return transfers_.unshard(all, element_bytes_, options_.optimizer_collective);
  }

 private:
  [[nodiscard]] double gather(std::int64_t elements) const {
    return transfers_.unshard(even_table(elements, world_size_), element_bytes_, options_.optimizer_collective);
  }

  const Machine& machine_;
  int world_size_;
  const ModelSpec& model_;
  const StepOptions& options_;
  const OptimizerCost& cost_;
  double element_bytes_;
  Transfers& transfers_;
};

}  // namespace

double optimizer_seconds(StrategyKind kind, const ModelSpec& model, const Plan& plan, const Machine& machine,
                         const StepOptions& options, const std::vector<StrategyLoad>& loads, double element_bytes,
                         Transfers& transfers) {
  const double local = local_seconds(machine, loads, options.master_weights ? 1 : 0.5);
  const Traffic traffic(machine, model, options, element_bytes, transfers);
  switch (kind) {
    case StrategyKind::fsdp2:
      return local + traffic.copies() + traffic.every_step();
    case StrategyKind::fsdp2_gather:
      return traffic.ahead(local);
    case StrategyKind::fsdp2_alltoall:
      return local + traffic.there_and_back();
    case StrategyKind::zero1_owner:
      return local + traffic.weights(plan);
    default:
      return local;
  }
}

}  // namespace matrixfsdp::detail

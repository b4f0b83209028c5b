#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/machine.hpp>
#include <matrixfsdp/plan/time_model.hpp>
#include <matrixfsdp/plan/topology.hpp>

#include "apps/train/options.hpp"
#include "apps/train/replica.hpp"

namespace matrixfsdp::bench {

/// Of each round that counts; times in seconds, of the slowest rank.
struct TrainFigures {
  std::vector<double> forward, backward, optimizer, total;
  std::vector<double> fraction;                   ///< of the rate of sgemm just before, reached by the whole step
  std::vector<double> forward_backward_fraction;  ///< and by forward and backward
  std::vector<double> hidden;                     ///< share of the transfers' time, on rank 0
  ByteCounts bytes;                               ///< of one step, all ranks
  double product_flops = 0;                       ///< of one step and rank: the transformer's
};

/// A model as one strategy places it, and what was measured of its training steps.
class TrainContender {
 public:
  /// Collective. `links` are what predictions are made from, and choose collectives where
  /// options.automatic_collectives says so. Throws as Strategy, make_strategy_plan and choose_collectives do.
  TrainContender(Communicator& communicator, const train::Options& options, const Topology& topology,
                 const CollectiveProfile& links);

  /// Collective: one step, to the end of all that it sends. `product_rate` is that of a product just before.
  void run(double product_rate, bool count);

  [[nodiscard]] const train::Options& options() const { return options_; }
  [[nodiscard]] const TrainFigures& figures() const { return figures_; }
  /// Collective: of the fullest rank, with activations and the optimizer's workspace.
  [[nodiscard]] std::int64_t peak_bytes() const;
  /// Collective: of gradients, on the rank that has the most; and what the plan says of them.
  [[nodiscard]] std::int64_t gradient_bytes() const;
  [[nodiscard]] std::int64_t predicted_gradient_bytes() const;
  /// The largest of all units.
  [[nodiscard]] double gamma() const;
  /// What the model of time says of a step there.
  [[nodiscard]] StrategyPrediction predict(const Machine& machine) const;
  /// What the formulas say that all ranks send in a step: unshard, reduce, optimizer.
  [[nodiscard]] ByteCounts predicted_bytes() const;

 private:
  struct Step;  ///< one that is timed on this rank
  Step run_here();
  [[nodiscard]] StrategyCostOptions cost() const;

  Communicator& communicator_;
  train::Options options_;
  Topology topology_;
  CollectiveProfile links_;
  ModelSpec model_;
  Plan plan_;
  std::unique_ptr<train::Replica> replica_;
  TrainFigures figures_;
};

}  // namespace matrixfsdp::bench

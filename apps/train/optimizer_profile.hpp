#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/optim/optimizer.hpp>
#include <matrixfsdp/plan/optimizer_profile.hpp>

namespace matrixfsdp::train {

/// What this rank's matrices took, step after step, for the planner of a later run.
class OptimizerTimes {
 public:
  /// The first step also touches memory and starts threads: it counts only where no other one does.
  void add(const StepResult& step);

  /// Collective. On every rank: the figures of all, where `plan_ranks` of the communicator's ranks share the matrices.
  /// No measurements: no matrix was stepped.
  [[nodiscard]] OptimizerProfile gather(Communicator& communicator, int plan_ranks) const;

 private:
  struct Sum {
    std::int64_t steps = 0;
    double seconds = 0;
  };
  std::map<MatrixWork, Sum> sums_;
  std::int64_t steps_ = 0;
};

/// Collective. Reads the metrics file of --profile on rank 0. Throws InputError on all ranks alike.
OptimizerProfile optimizer_profile(Communicator& communicator, const std::string& path);

}  // namespace matrixfsdp::train

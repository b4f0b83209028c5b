#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <matrixfsdp/comm/communicator.hpp>

#include "apps/train/collective_profile.hpp"
#include "apps/train/data.hpp"
#include "apps/train/health.hpp"
#include "apps/train/metrics.hpp"
#include "apps/train/optimizer_profile.hpp"
#include "apps/train/options.hpp"
#include "apps/train/replica.hpp"

namespace matrixfsdp::train {

/// What a run does inside a step.
struct StepHooks {
  std::function<void()> before_update;                     ///< before the optimizer changes weights and state
  std::function<void(StepMetrics& mine)> before_exchange;  ///< fills in what this rank tells the others
};

/// The training loop's body: every rank calls the same functions in the same order.
class Trainer {
 public:
  /// Plans, shards and initialises; with Options::verify a replicated copy too, on a communicator of its own, which
  /// stays with MPI. Throws InputError, agreed by all ranks, where Options::backend cannot be had.
  Trainer(Communicator& communicator, const Options& options, const Data& data);

  /// One optimizer step; figures are the job's. A step whose gradient or loss is not finite is skipped on all ranks
  /// alike, but with step_in_backward ends the run: InputError that names
  /// what is not finite, with its rank. Throws ContractError when the number of orthogonalized matrices is not the
  /// model's.
  StepMetrics step();

  /// Mean loss over Options::evaluation_batches fixed batches of the validation data: the same bits at any W.
  double evaluate();

  /// Continues `prompt` (tokens; the last sequence_length at most count) by `count` tokens.
  std::vector<std::int32_t> sample(std::vector<std::int32_t> prompt, std::int64_t count);

  /// Collective. What the matrices' steps took on each rank, since the start; no measurements where there were none.
  OptimizerProfile measured_optimizer();

  /// Of the last step, on rank 0: see gather_health; null unless Options::health_every asked for it, and where the step
  /// was skipped.
  [[nodiscard]] const nlohmann::json& health() const { return health_; }
  /// Of the last step, on every rank: what made it fail; empty where nothing did.
  [[nodiscard]] const std::vector<Failure>& failures() const { return failures_of_step_; }

  [[nodiscard]] std::int64_t steps_done() const { return step_; }
  [[nodiscard]] std::int64_t steps_taken() const { return taken_; }
  /// After a load into replica(): where the run continues.
  void restore(std::int64_t step, std::int64_t taken);
  /// Instead of those before; each may be empty.
  void set_hooks(StepHooks hooks) { hooks_ = std::move(hooks); }

  [[nodiscard]] Replica& replica() const { return *replica_; }
  /// The copy of Options::verify; null without it.
  [[nodiscard]] Replica* reference() const { return reference_.get(); }
  /// What was chosen for each unit, and from which figures; empty unless Options::automatic_collectives.
  [[nodiscard]] const AutomaticCollectives& collectives() const { return collectives_; }
  /// "segments by NCCL 2.28.9", or why MPI carries them.
  [[nodiscard]] const std::string& backend() const { return backend_; }
  [[nodiscard]] Communicator& communicator() const { return communicator_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Data& data() const { return data_; }

 private:
  /// Plans, and chooses collectives for the plan where that is asked for.
  std::unique_ptr<Replica> make_replica(Communicator& communicator, Options options,
                                        std::vector<UnitCollectives>& choices) const;
  void run_passes(Replica& replica, std::vector<double>& losses, PassTimes& times);
  void check_matrices(const StepMetrics& metrics) const;
  StepInput begin_update();
  /// The optimizer's step; the parameters of this rank that it left as they were.
  std::vector<std::string> update(const StepInput& input, StepMetrics& metrics);
  /// The step of the replicated copy, and the comparison.
  void verify(StepInput input, bool skipped);
  void end_without_step(const StepMetrics& metrics);
  /// Collective. `failed`: parameters of this rank; none: the step was skipped, whatever holds such values made it so.
  void report_failures(const std::optional<std::vector<std::string>>& failed);

  Communicator& communicator_;
  Options options_;
  const Data& data_;
  AutomaticCollectives collectives_;
  std::string backend_;                         // what carries segments, in words
  std::optional<nccl::Attachment> attachment_;  // outlives the replica, whose units travel by it
  std::unique_ptr<Replica> replica_;
  OptimizerTimes optimizer_times_;
  std::unique_ptr<Communicator> reference_communicator_;  // of --verify
  std::unique_ptr<Replica> reference_;
  std::optional<HealthProbe> probe_;  // with Options::health_every
  nlohmann::json health_;
  std::vector<Failure> failures_of_step_;
  StepHooks hooks_;
  std::int64_t step_ = 0;      // steps done, skipped ones included
  std::int64_t taken_ = 0;     // steps that changed weights: AdamW's t
  std::int64_t failures_ = 0;  // of this rank's last step, told in the next norm exchange
  ByteCounts reported_;        // bytes at the last metrics line
};

}  // namespace matrixfsdp::train

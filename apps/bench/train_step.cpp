#include "apps/bench/train_step.hpp"

#include <algorithm>
#include <list>
#include <memory>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>

#include "apps/bench/benchmark.hpp"
#include "apps/bench/rates.hpp"
#include "apps/bench/train_contender.hpp"
#include "apps/train/collective_profile.hpp"

namespace matrixfsdp::bench {
namespace {

train::Options training_options(const TrainStepOptions& options, int world_size) {
  train::Options result;
  result.model = options.model;
  result.shape = train::resolve_shape(options.model, options.extents);
  result.micro_batch = options.micro_batch;
  result.batch_size = options.micro_batch * options.passes * world_size;
  result.recompute = options.recompute;
  result.optimizer.matrices = parse_matrix_optimizer(options.optimizer);
  result.optimizer.muon.newton_schulz.steps = options.newton_schulz_steps;
  result.optimizer.workers = options.threads;
  result.planner.optimizer = cost_of(result.optimizer);
  return result;
}

/// Every strategy with every planner and every collective.
std::list<TrainContender> make_contenders(Communicator& communicator, const TrainStepOptions& options,
                                          const Topology& topology, const CollectiveProfile& links) {
  train::Options training = training_options(options, communicator.size());
  std::list<TrainContender> contenders;
  for (const std::string& strategy : options.strategies) {
    for (const std::string& planner : options.planners) {
      for (const std::string& collective : options.collectives) {
        training.strategy = parse_strategy(strategy);
        training.planner.policy = parse_policy(planner);
        training.automatic_collectives = collective == "auto";
        training.sharding.collective = parse_collective(training.automatic_collectives ? "scatter" : collective);
        for (const std::string& dtype : options.compute_dtypes) {
          training.compute_dtype = parse_dtype(dtype);
          training.sharding.step_in_backward = false;
          contenders.emplace_back(communicator, training, topology, links);
          if (!options.step_in_backward || training.strategy != StrategyKind::matrix_fsdp) continue;
          training.sharding.step_in_backward = true;
          contenders.emplace_back(communicator, training, topology, links);
        }
      }
    }
  }
  return contenders;
}

nlohmann::json milliseconds(std::vector<double> seconds) {
  for (double& value : seconds)
    value *= 1e3;
  return to_json(spread_of(std::move(seconds)));
}

nlohmann::json ratios(const std::vector<double>& values, const std::vector<double>& reference) {
  std::vector<double> quotients;
  for (std::size_t i = 0; i < values.size(); ++i)
    quotients.push_back(values[i] / reference[i]);
  return to_json(spread_of(std::move(quotients)));
}

nlohmann::json to_json(const ByteCounts& bytes, std::initializer_list<Purpose> purposes) {
  nlohmann::json result;
  for (const Purpose purpose : purposes)
    result[std::string(name_of(purpose))] = bytes[purpose];
  return result;
}

/// Of the optimizer's time in steps afterwards, what steps in backward did not take in the same rounds.
nlohmann::json optimizer_hidden(const TrainContender& contender, const TrainContender& afterwards) {
  if (!contender.options().sharding.step_in_backward) return {};
  const TrainFigures& mine = contender.figures();
  const TrainFigures& theirs = afterwards.figures();
  std::vector<double> shares;
  for (std::size_t i = 0; i < mine.total.size(); ++i)
    shares.push_back((theirs.total[i] - mine.total[i]) / theirs.optimizer[i]);
  return to_json(spread_of(std::move(shares)));
}

void add_prediction(const TrainContender& contender, const Machine& machine, nlohmann::json& row) {
  const StrategyPrediction predicted = contender.predict(machine);
  row["predicted_forward_ms"] = 1e3 * predicted.forward_seconds;
  row["predicted_backward_ms"] = 1e3 * predicted.backward_seconds;
  row["predicted_optimizer_ms"] = 1e3 * predicted.optimizer_seconds;
  row["predicted_total_ms"] = 1e3 * predicted.total_seconds();
  row["over_predicted"] = spread_of(contender.figures().total).median / predicted.total_seconds();
}

nlohmann::json row_of(const TrainContender& contender, const TrainContender& first) {
  const TrainFigures& figures = contender.figures();
  const train::Options& options = contender.options();
  using enum Purpose;
  return {
      {"strategy", name_of(options.strategy)},
      {"planner", name_of(options.planner.policy)},
      {"collective", options.automatic_collectives ? "auto" : name_of(options.sharding.collective)},
      {"optimizer", name_of(options.optimizer.matrices)},
      {"step_in_backward", options.sharding.step_in_backward},
      {"ns_steps", options.planner.optimizer.newton_schulz_steps},
      {"compute_dtype", name_of(options.compute_dtype)},
      {"forward_ms", milliseconds(figures.forward)},
      {"backward_ms", milliseconds(figures.backward)},
      {"optimizer_ms", milliseconds(figures.optimizer)},
      {"total_ms", milliseconds(figures.total)},
      {"ratio", ratios(figures.total, first.figures().total)},
      {"bytes", to_json(figures.bytes, {unshard, reduce, clip, optimizer, other})},
      {"optimizer_bytes", figures.bytes[optimizer]},
      {"gamma", contender.gamma()},
      {"hidden_share", to_json(spread_of(figures.hidden))},
      {"product_gflop", 1e-9 * figures.product_flops},
      {"forward_backward_fraction", to_json(spread_of(figures.forward_backward_fraction))},
      {"step_fraction", to_json(spread_of(figures.fraction))},
  };
}

/// Runs the rounds; the rates of sgemm just before each step, on this rank.
std::vector<double> run_rounds(std::list<TrainContender>& contenders, const TrainStepOptions& options) {
  std::vector<double> rates;
  for (std::int64_t round = 0; round <= options.rounds; ++round) {  // the first one warms up
    for (TrainContender& contender : contenders) {
      const TransformerShape& shape = contender.options().shape;
      const double rate = product_rate(options.micro_batch * shape.sequence_length, shape.ffn, shape.hidden);
      contender.run(rate, round > 0);
      if (round > 0) rates.push_back(rate);
    }
  }
  return rates;
}

nlohmann::json rows_of(Communicator& communicator, const std::list<TrainContender>& contenders, const Machine& machine,
                       const nlohmann::json& sgemm) {
  using enum Purpose;
  nlohmann::json rows = nlohmann::json::array();
  const TrainContender* before = &contenders.front();
  for (const TrainContender& contender : contenders) {
    nlohmann::json row = row_of(contender, contenders.front());
    row["optimizer_hidden_share"] = optimizer_hidden(contender, *std::exchange(before, &contender));
    row["gradient_bytes"] = contender.gradient_bytes();
    row["predicted_gradient_bytes"] = contender.predicted_gradient_bytes();
    row["world_size"] = communicator.size();
    row["peak_bytes"] = contender.peak_bytes();
    row["predicted_bytes"] = to_json(contender.predicted_bytes(), {unshard, reduce, optimizer});
    row["sgemm_gflops"] = sgemm;
    add_prediction(contender, machine, row);
    row.update(balance_of(machine));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

int train_step(Session& session, const TrainStepOptions& options) {
  Communicator& communicator = session.world();
  if (std::count(options.compute_dtypes.begin(), options.compute_dtypes.end(), "bfloat16") > 0)
    linalg::require_bfloat16("--compute-dtype bfloat16");
  const ModelSpec model = transformer_model(training_options(options, communicator.size()).shape);
  mpi::set_gpu_aware(communicator, options.gpu_aware);
  const Topology topology = mpi::topology_of(communicator);
  const CollectiveProfile profile = train::collective_profile(communicator, topology, options.profile);
  // After the calibration, which is of MPI.
  const nccl::Attachment attachment = train::attach_backend(communicator, options.backend);
  if (communicator.rank() == 0) log_line(attachment.description());
  std::list<TrainContender> contenders = make_contenders(communicator, options, topology, profile);
  const double orthogonalize = orthogonalize_rate(communicator, model, options.newton_schulz_steps);
  const double memory = memory_rate(communicator);
  std::vector<double> rates = run_rounds(contenders, options);
  for (double& rate : rates)
    rate *= 1e-9;
  const Spread sgemm = spread_of(rates);
  const double slowest_sgemm = 1e9 / slowest(communicator, 1 / sgemm.median);
  const Machine machine = machine_of(topology, profile, {slowest_sgemm, orthogonalize, memory});
  print("train-step", session, rows_of(communicator, contenders, machine, to_json(sgemm)), train_step_columns(),
        options.json);
  return exit_ok;
}

std::vector<std::string> train_step_columns() {
  return {"strategy",
          "planner",
          "collective",
          "ns_steps",
          "compute_dtype",
          "forward_ms",
          "backward_ms",
          "optimizer_ms",
          "total_ms",
          "ratio",
          "predicted_total_ms",
          "over_predicted",
          "optimizer_hidden_share",
          "optimizer_bytes",
          "gradient_bytes",
          "peak_bytes",
          "gamma",
          "hidden_share",
          "sgemm_gflops",
          "forward_backward_fraction",
          "step_fraction",
          "kernel_gflops",
          "link_mb_per_second",
          "kflop_per_byte"};
}

Command add_train_step(CLI::App& app) {
  const auto options = std::make_shared<TrainStepOptions>();
  CLI::App* command = app.add_subcommand(
      "train-step",
      "Whole training steps. Phases: of the slowest rank. ratio: total over the first row's, in the same rounds; "
      "predicted: of the time model, from this run's links and rates; bytes: sent by all ranks in one step; "
      "peak_bytes: of the fullest rank, gradient_bytes of these; optimizer_hidden_share: the total of the row before "
      "less the row's, over the optimizer's time of the row before (steps in backward: what they hide, with the norm); "
      "gamma: the largest of all units; sgemm_gflops: of one large product; "
      "forward_backward_fraction and step_fraction: FLOPs of the transformer's matrix products (recomputation and the "
      "optimizer's own products not counted) over the time of forward and backward, and over the time of the whole "
      "step, as a fraction of that rate; kernel_gflops: of Newton-Schulz on all ranks at once; kflop_per_byte: that "
      "over the rate of a link.");
  apps::OptionReader reader(*command);
  train::add_model_options(reader, options->model, options->extents);
  command->add_option("--micro-batch", options->micro_batch)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--passes", options->passes, "Per step and rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--optimizer", options->optimizer)
      ->check(CLI::IsMember(optimizer_names()))
      ->capture_default_str();
  command->add_option("--ns-steps", options->newton_schulz_steps, "Newton-Schulz steps")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--strategy", options->strategies, "One or more; ratios are to the first")
      ->check(CLI::IsMember(strategy_names()))
      ->capture_default_str();
  command->add_option("--planner", options->planners, "One or more, of matrix-fsdp and zero1-owner")
      ->check(CLI::IsMember({"role", "scope", "cost", "balanced"}))
      ->capture_default_str();
  command
      ->add_option("--collective", options->collectives,
                   "Of unshard, one or more. padded: an all-gather of everybody's largest segment; auto: what the "
                   "calibration predicts to be the fastest, for each unit, and for its reduction")
      ->check(CLI::IsMember({"direct", "chain", "scatter", "tree", "hierarchical", "padded", "auto"}))
      ->capture_default_str();
  command->add_option("--collective-profile", options->profile,
                      "File of the calibration: read if it exists, else written");
  command->add_flag("--step-in-backward", options->step_in_backward,
                    "A second row for matrix-fsdp: units are stepped in backward. Its backward_ms has their steps too");
  command->add_flag("--recompute", options->recompute);
  command->add_option("--compute-dtype", options->compute_dtypes, "Of the products of weights, one or more")
      ->check(CLI::IsMember({"float32", "bfloat16"}))
      ->capture_default_str();
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--threads", options->threads, "Of each rank")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  add_backend(*command, options->backend, options->gpu_aware);
  return make_command<TrainStepOptions>(command, options, &train_step);
}

}  // namespace matrixfsdp::bench

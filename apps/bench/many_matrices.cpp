#include "apps/bench/many_matrices.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/workers.hpp>
#include <matrixfsdp/orthogonalize/many.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "apps/bench/benchmark.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// All matrices of a model that Muon orthogonalizes, with a result for each.
class Matrices {
 public:
  explicit Matrices(const ModelSpec& model) {
    for (const UnitSpec& unit : model.units) {
      for (const ParameterSpec& parameter : unit.parameters) {
        if (parameter.frozen || kind_of(parameter) != ParameterKind::matrix) continue;
        ++parameters_;
        for (const MatrixPart& part : matrix_parts(parameter))
          add(part.rows, part.cols);
      }
    }
  }

  [[nodiscard]] std::vector<OrthogonalizeTask<float>>& tasks() { return tasks_; }
  [[nodiscard]] std::int64_t parameters() const { return parameters_; }

 private:
  void add(std::int64_t rows, std::int64_t cols) {
    const Tensor<float>& input = memory_.emplace_back(make_tensor<float>("benchmark", rows * cols));
    const CounterRandom random(1, memory_.size());
    for (std::int64_t i = 0; i < rows * cols; ++i)
      input.data()[i] = static_cast<float>(random.uniform(static_cast<std::uint64_t>(i))) - 0.5F;
    const MatrixView<const float> in(input.data(), rows, cols);
    const Tensor<float>& output = memory_.emplace_back(make_tensor<float>("benchmark", rows * cols));
    tasks_.push_back({in, MatrixView<float>(output.data(), rows, cols), {}});
  }

  std::vector<Tensor<float>> memory_;
  std::vector<OrthogonalizeTask<float>> tasks_;
  std::int64_t parameters_ = 0;
};

/// One way to do them all.
struct Contender {
  std::string choice;
  int threads_per_matrix;  ///< 0: pieces of large products, for workers that have no matrix left
  int matrices_at_once;
  std::function<void()> run;
  std::vector<double> seconds;
};

/// Matrices in the model's order, each to the next worker that is free, with one thread; a single one with `threads`.
class FixedChoice {
 public:
  FixedChoice(Matrices& matrices, const NewtonSchulzOptions& options, int threads, int at_once)
      : matrices_(matrices),
        options_(options),
        threads_(threads),
        workers_(at_once),
        scratch_(static_cast<std::size_t>(workers_.count())) {}

  void operator()() {
    if (workers_.count() == 1) {
      linalg::set_threads(threads_);
      for (OrthogonalizeTask<float>& task : matrices_.tasks())
        run(task, 0);
      return;
    }
    std::atomic<std::size_t> next = 0;
    workers_.run([&](std::int64_t worker) {
      for (std::size_t i = next++; i < matrices_.tasks().size(); i = next++)
        run(matrices_.tasks()[i], static_cast<std::size_t>(worker));
    });
  }

 private:
  void run(OrthogonalizeTask<float>& task, std::size_t worker) {
    task.result = orthogonalize<float>(task.input, task.output, options_, scratch_[worker]);
  }

  Matrices& matrices_;
  const NewtonSchulzOptions& options_;
  int threads_;
  linalg::Workers workers_;
  std::vector<NewtonSchulzWorkspace<float>> scratch_;
};

Contender fixed(Matrices& matrices, const NewtonSchulzOptions& options, int threads, int at_once) {
  const auto choice = std::make_shared<FixedChoice>(matrices, options, threads, at_once);
  return {fmt::format("{} x {}", threads, at_once), threads, at_once, [choice] { (*choice)(); }, {}};
}

Contender ours(Matrices& matrices, const NewtonSchulzOptions& options, int workers) {
  const auto team = std::make_shared<OrthogonalizeTeam<float>>(workers);
  const auto run = [team, &matrices, &options] {
    orthogonalize_many<float>(std::span(matrices.tasks()), options, *team);
  };
  return {fmt::format("orthogonalize_many, {}", team->workers()), 0, team->workers(), run, {}};
}

std::vector<Contender> contenders_of(Matrices& matrices, const NewtonSchulzOptions& options, int threads) {
  std::vector<Contender> all;
  all.push_back(fixed(matrices, options, 1, 1));
  if (threads > 1) {
    // Not both: a BLAS has one pool of threads, which its callers wait for.
    all.push_back(fixed(matrices, options, threads, 1));
    all.push_back(fixed(matrices, options, 1, threads));
    all.push_back(ours(matrices, options, 1));
  }
  all.push_back(ours(matrices, options, threads));
  return all;
}

void run_round(std::vector<Contender>& contenders, bool count) {
  for (Contender& contender : contenders) {
    const auto start = Clock::now();
    contender.run();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (count) contender.seconds.push_back(seconds);
  }
}

/// The fixed choice with the smallest median.
const Contender& best_of(const std::vector<Contender>& contenders) {
  const Contender* best = &contenders.front();
  for (const Contender& contender : contenders) {
    if (contender.threads_per_matrix > 0 && spread_of(contender.seconds).median < spread_of(best->seconds).median)
      best = &contender;
  }
  return *best;
}

nlohmann::json rows_of(const ManyMatricesOptions& options, Matrices& matrices,
                       const std::vector<Contender>& contenders) {
  const Contender& best = best_of(contenders);
  std::int64_t flops = 0;
  for (const OrthogonalizeTask<float>& task : matrices.tasks())
    flops += task.result.flops;
  nlohmann::json rows = nlohmann::json::array();
  for (const Contender& contender : contenders) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < contender.seconds.size(); ++round)
      ratios.push_back(contender.seconds[round] / best.seconds[round]);
    const Spread seconds = spread_of(contender.seconds);
    rows.push_back({{"model", options.model},
                    {"matrices", matrices.parameters()},
                    {"parts", matrices.tasks().size()},
                    {"choice", contender.choice},
                    {"threads_per_matrix",
                     contender.threads_per_matrix > 0 ? nlohmann::json(contender.threads_per_matrix) : nullptr},
                    {"matrices_at_once", contender.matrices_at_once},
                    {"algorithm", options.algorithm},
                    {"steps", options.steps},
                    {"seconds", to_json(seconds)},
                    {"ratio", to_json(spread_of(ratios))},
                    {"flops", flops},
                    {"gflops", 1e-9 * static_cast<double>(flops) / seconds.median}});
  }
  return rows;
}

}  // namespace

int many_matrices(Session& session, const ManyMatricesOptions& options) {
  if (session.world().size() != 1)
    throw InputError(
        fmt::format("many-matrices: {} ranks, expected one: it measures a kernel", session.world().size()));
  const NewtonSchulzOptions newton_schulz{parse_newton_schulz_algorithm(options.algorithm), nullptr, options.steps};
  Matrices matrices(transformer_model(transformer_from_name(options.model)));
  std::vector<Contender> contenders = contenders_of(matrices, newton_schulz, options.threads);
  for (std::int64_t round = 0; round <= options.rounds; ++round)
    run_round(contenders, round > 0);  // the first one touches pages and starts threads
  print("many-matrices", session, rows_of(options, matrices, contenders),
        {"model", "matrices", "choice", "threads_per_matrix", "matrices_at_once", "algorithm", "steps", "seconds",
         "ratio", "flops", "gflops"},
        options.json);
  return exit_ok;
}

Command add_many_matrices(CLI::App& app) {
  const auto options = std::make_shared<ManyMatricesOptions>();
  CLI::App* command =
      app.add_subcommand("many-matrices",
                         "Orthogonalization of all matrices of a model on one rank. Fixed choices of threads for each "
                         "matrix x matrices at "
                         "once (in the model's order, each to the next free one), and orthogonalize_many with so many "
                         "workers, in the same "
                         "rounds. ratio: seconds over those of the fixed choice that is fastest in the median.");
  command->add_option("--model", options->model)->capture_default_str();
  command->add_option("--algorithm", options->algorithm)->capture_default_str();
  command->add_option("--steps", options->steps)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--threads", options->threads, "Cores")->check(CLI::PositiveNumber)->capture_default_str();
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  return make_command<ManyMatricesOptions>(command, options, &many_matrices);
}

}  // namespace matrixfsdp::bench

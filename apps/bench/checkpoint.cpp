#include "apps/bench/checkpoint.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <matrixfsdp/checkpoint/saver.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "apps/bench/benchmark.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

/// Square matrices, eight for each rank, whose weights and momentum have so many bytes.
ModelSpec model_of(const CheckpointOptions& options, int ranks) {
  constexpr std::int64_t matrices = 8;
  const auto side = static_cast<std::int64_t>(std::sqrt(static_cast<double>(options.bytes) / (8.0 * matrices)));
  ModelSpec model;
  for (std::int64_t u = 0; u < ranks; ++u) {
    const std::string name = fmt::format("block.{}", u);
    UnitSpec unit{name, {}, false};
    for (std::int64_t m = 0; m < matrices; ++m) {
      ParameterSpec spec;
      spec.name = fmt::format("{}.matrix.{}", name, m);
      spec.shape = {std::max<std::int64_t>(1, side), std::max<std::int64_t>(1, side)};
      unit.parameters.push_back(std::move(spec));
    }
    model.units.push_back(std::move(unit));
  }
  return model;
}

/// A folder that all ranks know and rank 0 makes and removes.
class Scratch {
 public:
  Scratch(Communicator& world, const std::string& parent) : world_(world) {
    const auto id = all_gather_value(world, Purpose::other, static_cast<int>(::getpid()), {"folder", "", ""}).front();
    path_ = fmt::format("{}/mfsdp-bench-checkpoint-{}", parent, id);
    std::error_code error;
    if (world.rank() == 0) std::filesystem::create_directories(path_, error);
    agree_on_input(world, error ? fmt::format("--folder '{}': {}", parent, error.message()) : std::string());
  }
  ~Scratch() {
    std::error_code ignored;
    if (world_.rank() == 0) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  Communicator& world_;
  std::string path_;
};

/// What a program that only wants its bytes on disk does.
void write_and_flush(const std::string& path, const std::vector<std::span<const float>>& state) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool good = file >= 0;
  for (const auto& values : state) {
    auto rest = std::as_bytes(values);
    while (good && !rest.empty()) {
      const ::ssize_t count = ::write(file, rest.data(), rest.size());
      good = count > 0;
      if (good) rest = rest.subspan(static_cast<std::size_t>(count));
    }
  }
  good = good && ::fsync(file) == 0;
  if (file >= 0) good = ::close(file) == 0 && good;
  if (!good) throw IoError(fmt::format("'{}': cannot be written: {}", path, std::strerror(errno)));
}

class Rounds {
 public:
  Rounds(Communicator& world, const CheckpointOptions& options)
      : world_(world),
        options_(options),
        scratch_(world, options.folder),
        spec_(model_of(options, world.size())),
        model_(world, spec_, make_plan(spec_, world.size()), {}),
        optimizer_(make_optimizer(model_.trainable(), {})),
        saver_(scratch_.path() + "/run", model_, *optimizer_, {1, std::chrono::minutes(30)}) {
    for (const ParameterView& view : model_.resident())
      state_.emplace_back(view.weight.data(), view.weight.size());
    for (const StateView& state : optimizer_->state())
      state_.emplace_back(state.values.data(), state.values.size());
    for (const auto& values : state_)
      copy_.emplace_back(values.size());
  }

  void run(bool count) {
    plain_write();  // see there
    const double plain = plain_write();
    const double synchronous = measure([&] { saver_.save(next_state()); });
    const double copy = measure([&] {
      for (std::size_t i = 0; i < state_.size(); ++i)
        std::memcpy(copy_[i].data(), state_[i].data(), state_[i].size_bytes());
    });
    const double at_once = stopped(0);
    const double beside = stopped(options_.compute_milliseconds * 1e-3);
    const double load = measure([&] { io::load_latest(scratch_.path() + "/run", model_, *optimizer_); });
    if (!count) return;
    plain_.push_back(plain);
    synchronous_.push_back(synchronous);
    bandwidth_.push_back(plain / synchronous);
    copy_seconds_.push_back(copy);
    at_once_.push_back(at_once);
    at_once_ratio_.push_back(at_once / copy);
    beside_.push_back(beside);
    beside_ratio_.push_back(beside / copy);
    load_.push_back(load);
    load_ratio_.push_back(load / plain);
  }

  [[nodiscard]] nlohmann::json rows() const {
    return {row("plain write + fsync", plain_, {}, ""),
            row("synchronous save", synchronous_, bandwidth_, "bandwidth over that of the plain write"),
            row("memcpy", copy_seconds_, {}, ""),
            row("stop of a save, update at once", at_once_, at_once_ratio_, "seconds over those of memcpy"),
            row("stop of a save", beside_, beside_ratio_, "seconds over those of memcpy"),
            row("load", load_, load_ratio_, "seconds over those of the plain write")};
  }

 private:
  io::TrainingState next_state() {
    io::TrainingState state;
    state.step = state.data_step = ++step_;
    return state;
  }

  /// Into a new folder, as a save does, which is then removed: the next one gets its memory and blocks. Those that the
  /// system has not touched yet may take several times as long, so neither contender may be the first to meet them.
  double plain_write() {
    const std::string folder = fmt::format("{}/plain", scratch_.path());
    std::filesystem::create_directory(folder);
    const double seconds = measure([&] { write_and_flush(fmt::format("{}/{}", folder, world_.rank()), state_); });
    if (world_.rank() == 0) std::filesystem::remove_all(folder);
    world_.barrier({"benchmark round", "", ""});
    return seconds;
  }

  /// Seconds of the slowest rank.
  double measure(const std::function<void()>& body) {
    world_.barrier({"benchmark round", "", ""});
    const auto start = Clock::now();
    body();
    return slowest(Seconds(Clock::now() - start).count());
  }

  double slowest(double mine) {
    const auto all = all_gather_value(world_, Purpose::other, mine, {"benchmark times", "", ""});
    return *std::max_element(all.begin(), all.end());
  }

  /// For how long a save stops a training of which a step takes `compute` seconds. The values do not change: the load
  /// that follows reads what was saved last.
  double stopped(double compute) {
    double mine = 0;
    const auto time = [&](const std::function<void()>& body) {
      const auto start = Clock::now();
      body();
      mine += Seconds(Clock::now() - start).count();
    };
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // steps lie between saves: old ones are gone by then
    world_.barrier({"benchmark round", "", ""});
    time([&] { saver_.start(next_state()); });
    for (bool published = false; !published;) {
      std::this_thread::sleep_for(Seconds(compute));
      time([&] { saver_.before_update(); });
      const auto all = all_gather_value(world_, Purpose::other, saver_.progress(), {"metrics exchange", "", "step"});
      time([&] { published = saver_.advance(*std::max_element(all.begin(), all.end())).has_value(); });
      if (compute == 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return slowest(mine);
  }

  [[nodiscard]] nlohmann::json row(const std::string& operation, const std::vector<double>& seconds,
                                   const std::vector<double>& ratio, const std::string& of) const {
    std::int64_t bytes = 0;
    for (const auto& values : state_)
      bytes += static_cast<std::int64_t>(values.size_bytes());
    const Spread spread = spread_of(seconds);
    return {{"operation", operation},
            {"bytes", bytes},
            {"seconds", to_json(spread)},
            {"gigabytes_per_second", 1e-9 * static_cast<double>(bytes) / spread.median},
            {"ratio", ratio.empty() ? nlohmann::json() : to_json(spread_of(ratio))},
            {"ratio_of", of}};
  }

  Communicator& world_;
  const CheckpointOptions& options_;
  Scratch scratch_;
  ModelSpec spec_;
  ShardedModel model_;
  std::unique_ptr<Optimizer> optimizer_;
  io::CheckpointSaver saver_;
  std::vector<std::span<const float>> state_;
  std::vector<std::vector<float>> copy_;
  std::int64_t step_ = 0;
  std::vector<double> plain_, synchronous_, bandwidth_, copy_seconds_, at_once_, at_once_ratio_, beside_, beside_ratio_,
      load_, load_ratio_;
};

}  // namespace

int checkpoint(Session& session, const CheckpointOptions& options) {
  Rounds rounds(session.world(), options);
  for (std::int64_t round = 0; round <= options.rounds; ++round)  // the first one warms up
    rounds.run(round > 0);
  print("checkpoint", session, rounds.rows(), {"operation", "bytes", "seconds", "gigabytes_per_second", "ratio"},
        options.json);
  return exit_ok;
}

Command add_checkpoint(CLI::App& app) {
  const auto options = std::make_shared<CheckpointOptions>();
  CLI::App* command = app.add_subcommand(
      "checkpoint",
      "Saves and loads of weights and optimizer state. ratio: bandwidth of a synchronous save over that of a plain "
      "write and fsync of the same bytes by every rank; seconds for which a save beside training stops it, over "
      "those of one memcpy of the same bytes, with the next update at once (all must be copied), and --compute-ms "
      "after the start; seconds of a load over those of the plain write.");
  command->add_option("--bytes", options->bytes, "Of each rank")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--compute-ms", options->compute_milliseconds)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--folder", options->folder, "Where a folder is made, and removed")->capture_default_str();
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  return make_command<CheckpointOptions>(command, options, &checkpoint);
}

}  // namespace matrixfsdp::bench

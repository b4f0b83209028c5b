#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/checkpoint/saver.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/schema/folders.hpp>
#include <matrixfsdp/schema/index_file.hpp>

#include "io/checkpoint/agree.hpp"
#include "io/checkpoint/folder_lock.hpp"
#include "io/checkpoint/job.hpp"
#include "io/checkpoint/rank_file.hpp"

namespace matrixfsdp::io {
namespace {

using Clock = std::chrono::steady_clock;

/// Of ranks that have not failed, for what they are writing when another has.
constexpr std::chrono::seconds grace{5};

void raise(const std::optional<Failure>& failure) {
  if (failure) failure->raise();
}

std::vector<ManifestPart> gather_parts(Communicator& communicator, const ManifestPart& mine) {
  const std::string text = to_text(mine);
  const auto all = communicator.all_gather(Purpose::other, std::as_bytes(std::span(text)),
                                           {"exchange of the manifest", "", "checkpoint"});
  std::vector<ManifestPart> parts;
  if (communicator.rank() != 0) return parts;
  for (const auto& bytes : all)
    parts.push_back(parse_manifest_part({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return parts;
}

/// All that rank 0 needs to publish, on the writer thread.
struct Publication {
  std::string folder;
  std::string temporary;
  Manifest manifest;  ///< without files and segments
  std::vector<ManifestPart> parts;

  void run() {
    add_parts(manifest, parts);
    const std::string path = fmt::format("{}/{}", folder, temporary);
    manifest.files.insert(manifest.files.begin(), write_index_file(path, manifest));
    write_text_durably(fmt::format("{}/{}", path, manifest_name), to_text(manifest));
    publish(folder, temporary, manifest.state.step);
  }
};

/// A save that is under way.
struct Save {
  enum class Phase { writing, publishing };

  Save(const std::string& folder, std::string name, bool owner)
      : temporary(std::move(name)), unpublished(folder + "/" + temporary, owner) {}

  Phase phase = Phase::writing;
  TrainingState state;
  std::string temporary;
  Unpublished unpublished;
  Clock::time_point end;  // deadline
  bool late = false;
  std::shared_ptr<Snapshot> snapshot;
  std::shared_ptr<ManifestPart> part = std::make_shared<ManifestPart>();
  std::unique_ptr<Job> job;  // goes first
};

}  // namespace

struct CheckpointSaver::Implementation {
  Implementation(std::string path, const ShardedModel& sharded, Optimizer& its_optimizer, const SaveOptions& how)
      : folder(std::move(path)), model(sharded), optimizer(its_optimizer), options(how) {
    require(options.keep_last >= 0, "checkpoints to keep: expected 0 (all) or more");
    require_equal(communicator(), stream_of(folder), "folder of checkpoints (hash)");
    std::string none;
    raise(from_rank_zero(
        communicator(), "lock of the folder of checkpoints",
        [&] {
          lock = std::make_unique<FolderLock>(folder);
          return std::string();
        },
        none));
  }

  [[nodiscard]] Communicator& communicator() const { return model.communicator(); }

  void start(const TrainingState& state, bool in_place) {
    const Patience patience(communicator(), options.deadline);
    require(save == nullptr, "start of a save: expected none under way");
    require_equal(communicator(), stream_of(fmt::format("{} {}", state.step, folder)), "checkpoint to write (hash)");
    Kokkos::fence();  // kernels may still write what is saved here
    std::string temporary;
    raise(from_rank_zero(
        communicator(), "start of a save",
        [&] {
          if (pruning != nullptr) (void)pruning->wait_until(Clock::now() + options.deadline);
          pruning.reset();
          remove_stale_folders(folder);
          return make_temporary_folder(folder, state.step);
        },
        temporary));
    auto started = std::make_unique<Save>(folder, temporary, communicator().rank() == 0);
    started->state = state;
    started->end = Clock::now() + options.deadline;
    started->snapshot = std::make_shared<Snapshot>(tensors_to_save(model, optimizer), in_place, copies);
    started->job =
        std::make_unique<Job>([path = started->unpublished.path(), rank = communicator().rank(),
                               snapshot = started->snapshot, part = started->part](const std::atomic<bool>& cancelled) {
          *part = write_rank_file(path, rank, *snapshot, cancelled);
        });
    save = std::move(started);
  }

  SaveProgress progress() {
    if (save == nullptr) return SaveProgress::idle;
    if (save->job == nullptr) return SaveProgress::ready;
    if (save->job->done()) return save->job->failure() ? SaveProgress::failed : SaveProgress::ready;
    save->late = Clock::now() >= save->end;
    return save->late ? SaveProgress::failed : SaveProgress::working;
  }

  /// What became of this rank's job, which is done, or is given up now.
  std::optional<Failure> verdict() {
    if (save->job == nullptr) return std::nullopt;
    const bool done = save->job->wait_until(Clock::now());
    if (!done) {
      save->job->cancel();
      (void)save->job->wait_until(Clock::now() + grace);
    }
    if (save->late) {
      return Failure{false,
                     fmt::format("'{}': was not written within {:.1f} s; expected a disk that answers, or a "
                                 "longer deadline for saves",
                                 save->unpublished.path(), std::chrono::duration<double>(options.deadline).count())};
    }
    return save->job->failure();
  }

  void end_writing() {
    const auto failure = agree(communicator(), "save", verdict());
    if (failure) abandon(*failure);
    save->job.reset();
    save->snapshot.reset();
    const auto parts = gather_parts(communicator(), *save->part);
    save->phase = Save::Phase::publishing;
    if (communicator().rank() != 0) return;
    const Plan& plan = model.plan();
    Publication publication{folder,
                            save->temporary,
                            {save->state, model.spec(), plan.planner, plan.world_size, plan.replicated, {}, {}},
                            parts};
    save->job =
        std::make_unique<Job>([publication](const std::atomic<bool>& /*cancelled*/) mutable { publication.run(); });
  }

  std::string end_publishing() {
    std::string name;
    const auto failure = from_rank_zero(
        communicator(), "end of a save",
        [&] {
          raise(verdict());
          save->unpublished.published();
          return step_name(save->state.step);
        },
        name);
    if (failure) abandon(*failure);
    if (communicator().rank() == 0) {
      pruning = std::make_unique<Job>([path = folder, step = save->state.step, keep_last = options.keep_last](
                                          const std::atomic<bool>& /*cancelled*/) { prune(path, step, keep_last); });
    }
    save.reset();
    return folder + "/" + name;
  }

  [[noreturn]] void abandon(const Failure& failure) {
    // A thread that is left behind keeps its own.
    if (save->job != nullptr && !save->job->done()) copies = std::make_shared<Snapshot::Copies>();
    save.reset();
    failure.raise();
  }

  std::optional<std::string> advance(SaveProgress all) {
    if (save == nullptr || all == SaveProgress::idle || all == SaveProgress::working) return std::nullopt;
    const Patience patience(communicator(), options.deadline + 2 * grace);
    if (save->phase == Save::Phase::publishing) return end_publishing();
    end_writing();
    return std::nullopt;
  }

  std::optional<std::string> finish() {
    std::optional<std::string> published;
    while (save != nullptr) {
      if (save->job != nullptr) (void)save->job->wait_until(save->end);
      published = advance(std::max(progress(), SaveProgress::ready));
    }
    return published;
  }

  std::string folder;
  const ShardedModel& model;
  Optimizer& optimizer;
  SaveOptions options;
  std::unique_ptr<FolderLock> lock;  // rank 0's
  std::shared_ptr<Snapshot::Copies> copies = std::make_shared<Snapshot::Copies>();
  std::unique_ptr<Job> pruning;  // rank 0\'s: nobody waits for it but the next save, and the end
  std::unique_ptr<Save> save;    // while one is under way
};

CheckpointSaver::CheckpointSaver(std::string folder, const ShardedModel& model, Optimizer& optimizer,
                                 const SaveOptions& options)
    : implementation_(std::make_unique<Implementation>(std::move(folder), model, optimizer, options)) {}
CheckpointSaver::~CheckpointSaver() = default;

std::string CheckpointSaver::save(const TrainingState& state) {
  implementation_->start(state, true);
  return implementation_->finish().value();
}

void CheckpointSaver::start(const TrainingState& state) {
  implementation_->start(state, false);
}

void CheckpointSaver::before_update() {
  const Save* save = implementation_->save.get();
  if (save == nullptr || save->snapshot == nullptr || save->job->done()) return;
  save->snapshot->detach();
}

SaveProgress CheckpointSaver::progress() {
  return implementation_->progress();
}

std::optional<std::string> CheckpointSaver::advance(SaveProgress all) {
  return implementation_->advance(all);
}

std::optional<std::string> CheckpointSaver::finish() {
  return implementation_->finish();
}

std::string save_checkpoint(const std::string& folder, const ShardedModel& model, Optimizer& optimizer,
                            const TrainingState& state, const SaveOptions& options) {
  return CheckpointSaver(folder, model, optimizer, options).save(state);
}

}  // namespace matrixfsdp::io

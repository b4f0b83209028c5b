#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <sys/resource.h>

#include <matrixfsdp/checkpoint/saver.hpp>

#include "support/checkpoint_run.hpp"
#include "support/full_disk.hpp"

// Saves while training goes on.
namespace matrixfsdp {
namespace {

using testing::assemble;
using testing::checkpoint_model;
using testing::CheckpointRun;
using testing::common_message_of;
using testing::FullDisk;
using testing::mentions;
using testing::on_rank_zero;
using testing::ReadOnlyFolder;
using testing::SlowDisk;
using testing::training_state;
using testing::world;

namespace fs = std::filesystem;

using Names = std::set<std::string>;

class Beside : public testing::CheckpointTest {
 protected:
  [[nodiscard]] std::unique_ptr<io::CheckpointSaver> make_saver(std::chrono::milliseconds deadline = {}) {
    io::SaveOptions options;
    if (deadline.count() > 0) options.deadline = deadline;
    return std::make_unique<io::CheckpointSaver>(folder / "run", run.model, *run.optimizer, options);
  }

  /// As a step does: the ranks tell each other how far they are. The folder, when it was published.
  static std::optional<std::string> meet(io::CheckpointSaver& saver) {
    io::SaveProgress all = io::SaveProgress::idle;
    for (const io::SaveProgress progress :
         all_gather_value(world(), Purpose::other, saver.progress(), {"progress", "", "step"}))
      all = std::max(all, progress);
    return saver.advance(all);
  }

  static std::string meet_until_published(io::CheckpointSaver& saver) {
    for (;;) {
      if (const auto published = meet(saver)) return *published;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  [[nodiscard]] Names entries() const { return entries_of(folder / "run"); }

  [[nodiscard]] bool is_last() const { return world().rank() == world().size() - 1; }
};

// CASES 56: what is saved is what was there when the save started, whatever the disk had written before the step.
TEST_F(Beside, values_are_those_of_the_start) {
  io::save_checkpoint(folder / "expected", run.model, *run.optimizer, training_state(1));
  const auto saver = make_saver();
  for (const int milliseconds : {0, 2, 20}) {
    SCOPED_TRACE("a write takes " + std::to_string(milliseconds) + " ms more");
    run.fill(1);
    const SlowDisk disk("/rank_", milliseconds);
    saver->start(training_state(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(3 * milliseconds));
    saver->before_update();
    run.fill(2);
    run.step(1);
    EXPECT_EQ(meet_until_published(*saver), folder / "run/step_00000001");
    on_rank_zero(world(), [&] {
      EXPECT_EQ(assemble(folder / "run/step_00000001"), assemble(folder / "expected/step_00000001"));
    });
  }
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001"}));
}

// The slowest rank decides, and until then nothing has a step's name.
TEST_F(Beside, nothing_is_published_before_all_have_written) {
  const auto saver = make_saver();
  EXPECT_EQ(saver->progress(), io::SaveProgress::idle);
  EXPECT_EQ(saver->advance(io::SaveProgress::idle), std::nullopt);
  {
    std::optional<SlowDisk> disk;
    if (is_last()) disk.emplace("/rank_", 20);
    saver->start(training_state(1));
    if (is_last()) {
      EXPECT_EQ(saver->progress(), io::SaveProgress::working);
    }
    EXPECT_EQ(meet(*saver), std::nullopt);
    const Names now = entries();
    EXPECT_EQ(now.size(), 1U);
    EXPECT_TRUE(now.begin()->starts_with(".saving-step_00000001-"));
    EXPECT_THROW(saver->start(training_state(2)), ContractError);
    EXPECT_EQ(saver->finish(), folder / "run/step_00000001");
  }
  EXPECT_EQ(saver->finish(), std::nullopt);
  EXPECT_EQ(saver->progress(), io::SaveProgress::idle);
  EXPECT_EQ(saver->save(training_state(2)), folder / "run/step_00000002");
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001", "step_00000002"}));
}

// CASES 54, 55: one rank fails, all say so at the step, nothing is left, and the next save is a good one.
TEST_F(Beside, failure_is_every_ranks) {
  const auto saver = make_saver();
  saver->save(training_state(1));
  const std::string file = fmt::format("rank_{:05}.h5", world().size() - 1);
  const auto error_of = [&] {
    return common_message_of<IoError>(world(), [&] {
      saver->start(training_state(2));
      saver->before_update();
      meet_until_published(*saver);
    });
  };
  {
    std::optional<FullDisk> disk;
    if (is_last()) disk.emplace("/rank_", 4096);
    EXPECT_TRUE(mentions(error_of(), {file, "No space left"}));
  }
  {
    std::optional<ReadOnlyFolder> disk;  // CASES 55: read-only on one rank
    if (is_last()) disk.emplace("/rank_");
    EXPECT_TRUE(mentions(error_of(), {file, "Read-only file system"}));
  }
  {
    std::optional<FullDisk> disk;  // rank 0 alone, when all files are written
    if (world().rank() == 0) disk.emplace("manifest.json", 100);
    EXPECT_TRUE(mentions(error_of(), {"manifest.json", "No space left"}));
  }
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001"}));
  saver->start(training_state(2));
  EXPECT_EQ(saver->finish(), folder / "run/step_00000002");
}

// RLIMIT_FSIZE: SIGXFSZ would end the process.
TEST_F(Beside, file_size_limit_is_an_error) {
  const auto saver = make_saver();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  if (is_last()) {
    const rlimit small{4096, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  const std::string message = common_message_of<IoError>(world(), [&] { saver->save(training_state(1)); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(mentions(message, {"rank_", "File too large"}));
  EXPECT_EQ(entries(), Names{});
  saver->save(training_state(1));
}

// CASES 60: a slow disk is given the time that saves have, not that of messages.
TEST_F(Beside, slow_disk_trips_no_watchdog) {
  const auto saver = make_saver();
  const auto deadline = world().deadline();
  std::optional<SlowDisk> disk;
  if (is_last()) disk.emplace("/rank_", 40);
  world().set_deadline(std::chrono::milliseconds(50));
  EXPECT_EQ(saver->save(training_state(1)), folder / "run/step_00000001");
  EXPECT_EQ(world().deadline(), std::chrono::milliseconds(50));
  world().set_deadline(deadline);
}

TEST_F(Beside, save_has_a_deadline) {
  io::save_checkpoint(folder / "run", run.model, *run.optimizer, training_state(1));
  const auto saver = make_saver(std::chrono::milliseconds(100));
  for (const bool waits : {true, false}) {
    std::optional<SlowDisk> disk;
    if (is_last()) disk.emplace("/rank_", 60);
    const std::string message = common_message_of<IoError>(world(), [&] {
      if (waits) saver->save(training_state(2));
      saver->start(training_state(2));
      meet_until_published(*saver);
    });
    EXPECT_TRUE(mentions(message, {".saving-step_00000002-", "was not written within 0.1 s"}));
  }
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001"}));
}

// A run that ends with an exception.
TEST_F(Beside, save_may_be_given_up) {
  {
    const auto saver = make_saver();
    const SlowDisk disk("/rank_", 5);
    saver->start(training_state(1));
  }
  world().barrier({"all have given up", "", ""});
  const auto saver = make_saver();
  saver->save(training_state(2));
  EXPECT_EQ(entries(), (Names{"latest", "step_00000002"}));
}

TEST_F(Beside, folder_is_one_jobs) {
  {
    const auto saver = make_saver();
    const std::string message = common_message_of<InputError>(world(), [&] { (void)make_saver(); });
    EXPECT_TRUE(mentions(message, {folder / "run", "another job", "process "}));
    EXPECT_TRUE(mentions(
        common_message_of<InputError>(
            world(), [&] { io::save_checkpoint(folder / "run", run.model, *run.optimizer, training_state(1)); }),
        {"another job"}));
    saver->save(training_state(1));
  }
  make_saver()->save(training_state(2));
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001", "step_00000002"}));
}

// Several saves, each while the next steps are taken: every one is that of its step.
TEST_F(Beside, every_save_is_that_of_its_step) {
  const auto saver = make_saver();
  for (std::int64_t step = 1; step <= 3; ++step) {
    saver->before_update();
    run.step(step);
    saver->finish();
    saver->start(training_state(step));
  }
  saver->finish();
  CheckpointRun again(world(), make_plan(checkpoint_model(), world().size()));
  again.fill(1);
  for (std::int64_t step = 1; step <= 3; ++step) {
    again.step(step);
    const std::string name = "step_0000000" + std::to_string(step);
    io::save_checkpoint(folder / "again", again.model, *again.optimizer, training_state(step));
    on_rank_zero(world(), [&] { EXPECT_EQ(assemble(folder / "run/" + name), assemble(folder / "again/" + name)); });
  }
}

}  // namespace
}  // namespace matrixfsdp

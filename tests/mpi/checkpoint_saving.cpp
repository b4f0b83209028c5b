#include <filesystem>
#include <set>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "support/checkpoint_run.hpp"
#include "support/full_disk.hpp"

namespace matrixfsdp {
namespace {

using testing::assemble;
using testing::common_message_of;
using testing::FullDisk;
using testing::mentions;
using testing::on_rank_zero;
using testing::read_bytes;
using testing::training_state;
using testing::world;

namespace fs = std::filesystem;

class Saving : public testing::CheckpointTest {
 protected:
  std::string save(std::int64_t step, int keep_last = 0) {
    io::SaveOptions options;
    options.keep_last = keep_last;
    return io::save_checkpoint(folder.path(), run.model, *run.optimizer, training_state(step), options);
  }

  [[nodiscard]] std::set<std::string> entries() const { return entries_of(folder.path()); }
};

using Names = std::set<std::string>;

// CASES 54, 55: one rank's disk is full. One verdict, nothing published, nothing left, and the next save succeeds.
TEST_F(Saving, OneRankThatFailsFailsAll) {
  save(1);
  const int victim = world().size() - 1;
  const auto before = assemble(folder / "step_00000001");
  {
    std::optional<FullDisk> disk;
    if (world().rank() == victim) disk.emplace(folder.path(), 4096);
    const std::string message = common_message_of<IoError>(world(), [&] { save(2); });
    EXPECT_TRUE(mentions(message, {"rank_0000" + std::to_string(victim) + ".h5", "No space left"}));
    const std::string who = world().size() > 1 ? "rank " + std::to_string(victim) + ":" : "";
    EXPECT_TRUE(mentions(message, {who}));
  }
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001"}));
  EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000001");
  EXPECT_EQ(assemble(folder / "step_00000001"), before);
  EXPECT_EQ(save(2), folder / "step_00000002");
  EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000002");
}

// A full disk at the manifest: rank 0 fails after all files are written.
TEST_F(Saving, ManifestThatFailsFailsAll) {
  save(1);
  {
    std::optional<FullDisk> disk;
    if (world().rank() == 0) disk.emplace("manifest.json", 100);
    EXPECT_TRUE(mentions(common_message_of<IoError>(world(), [&] { save(2); }), {"manifest.json", "No space left"}));
  }
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001"}));
  EXPECT_EQ(save(2), folder / "step_00000002");
}

TEST_F(Saving, FolderThatCannotBeIsNamed) {
  on_rank_zero(world(), [&] { std::ofstream(folder / "file") << "x"; });
  const std::string below = folder / "file/below";
  EXPECT_TRUE(mentions(common_message_of<IoError>(
                           world(), [&] { io::save_checkpoint(below, run.model, *run.optimizer, training_state(1)); }),
                       {below, "Not a directory"}));
}

TEST_F(Saving, ConfigurationIsJsonOrRefused) {
  io::TrainingState state = training_state(1);
  state.configuration = "lr = 0.1";
  EXPECT_TRUE(mentions(common_message_of<IoError>(
                           world(), [&] { io::save_checkpoint(folder.path(), run.model, *run.optimizer, state); }),
                       {"configuration", "lr = 0.1"}));
  EXPECT_EQ(entries(), Names{});
}

// CASES 54: leftovers of a save that was killed go; what only looks like it stays.
TEST_F(Saving, LeftoversAreRemoved) {
  on_rank_zero(world(), [&] {
    for (const char* name : {".saving-step_00000007-0123456789abcdef", ".saving-mine",
                             ".saving-step_7-0123456789abcdef", "step_old", "notes"}) {
      fs::create_directories(folder / name);
      std::ofstream(folder / name + "/rank_00000.h5") << "half";
    }
  });
  save(8);
  EXPECT_EQ(entries(),
            (Names{".saving-mine", ".saving-step_7-0123456789abcdef", "latest", "notes", "step_00000008", "step_old"}));
}

// CASES 59: rank 0 prunes; the one just written stays whatever its number is.
TEST_F(Saving, KeepsTheLast) {
  for (std::int64_t step = 1; step <= 5; ++step)
    save(step, 2);
  EXPECT_EQ(entries(), (Names{"latest", "step_00000004", "step_00000005"}));
  save(3, 1);  // a run that was taken back: later steps are not touched
  EXPECT_EQ(entries(), (Names{"latest", "step_00000003", "step_00000004", "step_00000005"}));
  EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000003");
  save(123456789, 1);
  EXPECT_EQ(entries(), (Names{"latest", "step_123456789"}));
}

TEST_F(Saving, SameStepIsReplaced) {
  save(1);
  run.fill(2);
  save(1);
  EXPECT_EQ(entries(), (Names{"latest", "step_00000001"}));
  const auto stored = assemble(folder / "step_00000001");
  io::save_checkpoint(folder / "other", run.model, *run.optimizer, training_state(1));
  EXPECT_EQ(stored, assemble(folder / "other/step_00000001"));
}

TEST_F(Saving, LatestIsWhatWasSavedLast) {
  EXPECT_EQ(io::find_latest(world(), folder / "absent"), std::nullopt);
  EXPECT_EQ(io::find_latest(world(), folder.path()), std::nullopt);
  save(1);
  save(2);
  EXPECT_EQ(read_bytes(folder / "latest"), "step_00000002\n");
  on_rank_zero(world(), [&] { fs::remove(folder / "latest"); });
  EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000002");
  on_rank_zero(world(), [&] { std::ofstream(folder / "latest") << "../../somewhere"; });
  EXPECT_EQ(io::find_latest(world(), folder.path()), folder / "step_00000002");
  const std::string file = folder / "step_00000001/manifest.json";
  EXPECT_TRUE(
      mentions(common_message_of<InputError>(world(), [&] { io::find_latest(world(), file); }), {file, "folder"}));
}

// CASES 65: HDF5's locks fail on some file systems, and where another program holds one. Ours are not of its files.
TEST_F(Saving, LocksOfOtherProgramsDoNotMatter) {
  save(1);
  const std::string path = folder / "step_00000001/rank_00000.h5";
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(file, 0);
  if (world().rank() == 0) {
    ASSERT_EQ(::flock(file, LOCK_EX), 0);
  }
  world().barrier({"locked", "", ""});
  EXPECT_EQ(io::load_checkpoint(folder / "step_00000001", run.model, *run.optimizer).step, 1);
  ::close(file);
}

TEST_F(Saving, BytesHaveTheirPurposeAndTheDeadlineIsPutBack) {
  const auto deadline = world().deadline();
  const ByteCounts before = world().bytes();
  save(1);
  EXPECT_EQ(world().deadline(), deadline);
  EXPECT_EQ(world().bytes().total() - before.total(), world().bytes()[Purpose::other] - before[Purpose::other]);
}

}  // namespace
}  // namespace matrixfsdp

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/schema/checkpoint_reader.hpp>

#include "support/small_run.hpp"

// Checkpoints of the trainer, as a user meets them.
namespace matrixfsdp {
namespace {

using testing::ProgramResult;
using testing::read_file;
using testing::read_json_lines;
using testing::run_program;
using testing::run_train;
using testing::write_file;

class TrainCheckpoints : public ::testing::Test {
 protected:
  TrainCheckpoints()
      : folder(testing::text_folder(std::string("checkpoints-") +
                                    ::testing::UnitTest::GetInstance()->current_test_info()->name())) {}

  [[nodiscard]] std::vector<std::string> arguments(const std::string& name, const std::string& steps,
                                                   const std::vector<std::string>& more = {}) const {
    const testing::Arguments run{"--lr-schedule",    "constant",
                                 "--batch-size",     "24",
                                 "--eval-batches",   "1",
                                 "--steps",          steps,
                                 "--checkpoint-dir", folder + "/" + name,
                                 "--resume",         "auto",
                                 "--metrics",        folder + "/" + name + ".jsonl"};
    return testing::small_run(folder, testing::joined(run, more));
  }

  /// Steps and bits of their losses, in the order in which they were taken.
  [[nodiscard]] std::vector<std::pair<int, std::string>> losses(const std::string& name) const {
    std::vector<std::pair<int, std::string>> all;
    for (const auto& step : testing::steps_of(folder + "/" + name + ".jsonl"))
      all.emplace_back(step["step"].get<int>(), step["loss_bits"].get<std::string>());
    return all;
  }

  /// Bits of every weight and optimizer state of a step.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> tensors(const std::string& step) const {
    io::CheckpointReader reader(folder + "/" + step);
    std::map<std::string, std::vector<std::byte>> all;
    for (const auto& [tensor, segments] : reader.tensors()) {
      const auto& [name, what] = tensor;
      auto& bytes = all[std::string(name) + "/" + std::string(what)];
      reader.read(std::string(name), std::string(what), [&](std::int64_t first, std::span<const std::byte> block) {
        bytes.resize(std::max(bytes.size(), static_cast<std::size_t>(first) * sizeof(float) + block.size()));
        std::copy(block.begin(), block.end(), bytes.begin() + first * static_cast<std::int64_t>(sizeof(float)));
      });
    }
    return all;
  }

  /// A run on 3 ranks in the background of a shell that then runs `script`, which knows job (the launcher's process),
  /// NOTES (where rank r leaves its process id in pid.r), and `steps N`, which waits until it has taken N steps.
  [[nodiscard]] ProgramResult beside(const std::string& name, const std::vector<std::string>& arguments,
                                     const std::string& script) const {
    std::filesystem::remove_all(folder + "/notes");
    std::filesystem::create_directories(folder + "/notes");
    std::string command = "taken() { cat '" + folder + "/" + name + ".jsonl' 2>/dev/null | grep -c loss_bits; }\n";
    command += "before=$(taken)\n";
    command +=
        "steps() { i=0; until [ $(($(taken) - before)) -ge $1 ] || [ $i -gt 1200 ]; do sleep 0.05; "
        "i=$((i + 1)); done; }\n";
    command += std::string(MATRIXFSDP_MPIEXEC) + " -n 3 sh -c '" +
               R"(echo $$ > "$NOTES/pid.${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"; exec "$@"' sh )" + MATRIXFSDP_TRAIN;
    for (const std::string& word : arguments)
      command += " '" + word + "'";
    command += " & job=$!\n";
    return run_program({"sh", "-c", command + script}, {{"NOTES", folder + "/notes"}});
  }

  std::string folder;
};

// CASES 50, 52: twelve steps on four ranks are four on one, four on eight, and four on two, in every loss, weight and
// state; saved beside training and not. Samples between the steps take no random number from them (CASES 58).
TEST_F(TrainCheckpoints, parts_on_other_ranks_are_the_whole) {
  ASSERT_EQ(run_train(4, arguments("whole", "12")).exit_code, 0);
  int part = 0;
  for (const int ranks : {1, 8, 2}) {
    const std::string mode = part == 1 ? "sync" : "async";
    const auto result = run_train(ranks, arguments("parts", std::to_string(4 * ++part),
                                                   {"--checkpoint-every", "3", "--checkpoint-mode", mode,
                                                    "--sample-every", "2", "--sample-tokens", "3"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
  }
  EXPECT_EQ(losses("parts"), losses("whole"));
  EXPECT_EQ(losses("parts").size(), 12U);
  const auto expected = tensors("whole/step_00000012");
  EXPECT_EQ(tensors("parts/step_00000012"), expected);
  EXPECT_NE(tensors("parts/step_00000009"), expected);
}

// A signal that reaches one rank: the step is finished, saved, and the code says that the job may be started again; a
// second signal changes nothing.
TEST_F(TrainCheckpoints, a_signal_on_one_rank_saves_and_asks_for_more) {
  int rank = 0;
  for (const std::string signal : {"USR1", "TERM"}) {
    ++rank;
    const auto tell = [&](int to) { return "kill -" + signal + " $(cat \"$NOTES/pid." + std::to_string(to) + "\")\n"; };
    const auto result = beside("run", arguments("run", "100000"), "steps 3\n" + tell(rank) + tell(0) + "wait $job");
    EXPECT_EQ(result.exit_code, 75) << result.err;
    EXPECT_NE(result.err.find("stopped by SIG" + signal), std::string::npos) << result.err;
    const int last = losses("run").back().first;
    EXPECT_NE(result.err.find("step_" + std::string(8 - std::to_string(last).size(), '0') + std::to_string(last)),
              std::string::npos)
        << result.err;
  }
  const std::string last = std::to_string(losses("run").back().first + 1);
  ASSERT_EQ(run_train(2, arguments("run", last)).exit_code, 0);
  ASSERT_EQ(run_train(1, arguments("whole", last)).exit_code, 0);
  EXPECT_EQ(losses("run"), losses("whole"));
}

// Two jobs on one folder: the second is told who is there, and the first does not notice.
TEST_F(TrainCheckpoints, a_second_job_is_refused) {
  std::string second = std::string(MATRIXFSDP_MPIEXEC) + " -n 2 " + MATRIXFSDP_TRAIN;
  for (const std::string& word : arguments("run", "5", {"--metrics", folder + "/second.jsonl"}))
    second += " '" + word + "'";
  const auto result = beside("run", arguments("run", "100000", {"--checkpoint-every", "1"}),
                             "steps 2\n" + second + "\necho second $?\nkill -TERM $(cat \"$NOTES/pid.0\")\nwait $job");
  EXPECT_EQ(result.exit_code, 75) << result.err;
  EXPECT_NE(result.out.find("second 2"), std::string::npos) << result.out << result.err;
  EXPECT_NE(result.err.find("another job saves into it (process "), std::string::npos) << result.err;
  EXPECT_EQ(read_json_lines(folder + "/second.jsonl").size(), 0U);
}

// The newest is damaged: the one before, with a warning that names the file; both: an error, exit code 2.
TEST_F(TrainCheckpoints, damage_is_passed_over_with_a_warning) {
  ASSERT_EQ(run_train(3, arguments("run", "4", {"--checkpoint-every", "2"})).exit_code, 0);
  const auto damage = [&](const std::string& file) {
    std::string bytes = read_file(file);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    write_file(file, bytes);
  };
  const std::string newest = folder + "/run/step_00000004/rank_00001.h5";
  damage(newest);
  auto result = run_train(2, arguments("run", "4"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.err.find("warning: checkpoint step_00000004 is not used"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find(newest), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("resumed from " + folder + "/run/step_00000002"), std::string::npos) << result.err;
  ASSERT_EQ(losses("run").size(), 6U);
  EXPECT_EQ(losses("run")[4], losses("run")[2]);
  EXPECT_EQ(losses("run")[5], losses("run")[3]);

  damage(folder + "/run/step_00000004/rank_00001.h5");
  damage(folder + "/run/step_00000002/manifest.json");
  result = run_train(2, arguments("run", "5"));
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_NE(result.err.find("holds no valid checkpoint"), std::string::npos) << result.err;
}

// A rank cannot write any more: the next step says so, with rank, file and reason, the job ends, and what was published
// before stays.
TEST_F(TrainCheckpoints, a_save_that_fails_ends_the_job_with_its_reason) {
  for (const std::string mode : {"sync", "async"}) {
    const auto result = beside(mode, arguments(mode, "100000", {"--checkpoint-every", "1", "--checkpoint-mode", mode}),
                               "steps 3\nprlimit --fsize=16384 --pid $(cat \"$NOTES/pid.1\")\nwait $job");
    EXPECT_EQ(result.exit_code, 2) << result.err;
    for (const char* words : {"rank 1: '", "rank_00001.h5", "File too large"})
      EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    const auto again = run_train(2, arguments(mode, "1"));
    EXPECT_EQ(again.exit_code, 0) << again.err;
    EXPECT_NE(again.err.find("resumed from"), std::string::npos) << again.err;
    EXPECT_EQ(again.err.find("warning"), std::string::npos) << again.err;
  }
}

// A disk that is full, a real one of 2 MB: every save takes more of it, until one does not fit. All that was published
// before is valid, and the run goes on when there is room again.
TEST_F(TrainCheckpoints, a_full_disk_ends_the_job_and_loses_nothing) {
  const std::string mounted =
      "unshare --mount --map-root-user sh -c 'mount -t tmpfs -o size=2m tmpfs \"$0\" && \"$@\"' ";
  std::filesystem::create_directories(folder + "/disk");
  if (run_program({"sh", "-c", mounted + folder + "/disk true"}).exit_code != 0)
    GTEST_SKIP() << "this kernel lets nobody mount a tmpfs in a namespace";
  for (const std::string mode : {"sync", "async"}) {
    const std::string script = folder + "/" + mode + ".sh";
    const auto train = [&](const std::string& steps, const std::string& kept) {
      std::string command = std::string(MATRIXFSDP_MPIEXEC) + " -n 2 " + MATRIXFSDP_TRAIN;
      for (const std::string& word :
           arguments("disk", steps, {"--checkpoint-every", "1", "--checkpoint-mode", mode, "--keep-last", kept}))
        command += " '" + word + "'";
      return command;
    };
    write_file(script, train("100000", "100") + "\necho first: $?\nrm -r " + folder + "/disk/step_00000001\n" +
                           train("3", "1") + "\necho second: $?\n");
    const auto result = run_program({"sh", "-c", mounted + folder + "/disk sh " + script});
    EXPECT_NE(result.out.find("first: 2"), std::string::npos) << result.out;
    for (const char* words : {"rank_0000", "No space left on device", "resumed from"})
      EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    EXPECT_EQ(result.err.find("warning"), std::string::npos) << result.err << "nothing that was published is damaged";
    EXPECT_NE(result.out.find("second: 0"), std::string::npos) << result.out;
  }
}

// What a save costs is in the metrics and in the summary.
TEST_F(TrainCheckpoints, time_that_training_stopped_is_recorded) {
  const auto result = run_train(2, arguments("run", "6", {"--checkpoint-every", "2", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary["saves"], 3);
  double seconds = 0;
  for (const auto& line : read_json_lines(folder + "/run.jsonl")) {
    if (!line.contains("loss_bits")) continue;
    const double milliseconds = line["milliseconds"]["checkpoint"];
    if (line["step"] == 3 || line["step"] == 5) {
      EXPECT_GT(milliseconds, 0);
    }
    seconds += 1e-3 * milliseconds;
  }
  EXPECT_GT(summary["checkpoint_seconds"].get<double>(), 0);
  EXPECT_GT(seconds, 0);
}

}  // namespace
}  // namespace matrixfsdp

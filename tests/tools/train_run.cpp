#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/small_run.hpp"
#include "support/token_shards.hpp"

namespace matrixfsdp {
namespace {

using testing::Arguments;
using testing::fresh_folder;
using testing::read_file;
using testing::read_json_lines;
using testing::run_train;
using testing::small_run;
using testing::steps_of;
using testing::text_folder;
using testing::write_file;

/// With a sample at the end.
Arguments sampling_run(const std::string& folder, const Arguments& more) {
  return testing::constant_run(folder, testing::joined({"--sample-tokens", "8"}, more));
}

TEST(TrainRun, learns_and_says_so) {
  const std::string folder = text_folder("learns");
  const auto result = run_train(2, sampling_run(folder, {"--steps", "60", "--adamw-lr", "0.01", "--json"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  EXPECT_LT(summary["last_loss"].get<double>(), summary["unigram_entropy"].get<double>());
  EXPECT_LT(summary["validation_loss"].get<double>(), summary["unigram_entropy"].get<double>());
  EXPECT_NEAR(summary["first_loss"].get<double>(), std::log(256.0), 0.2);
  EXPECT_EQ(summary["optimizer_bytes"], 0);
  EXPECT_EQ(summary["matrices_orthogonalized"], 2 * 6);  // per block: query, key, value, output, up, down
  EXPECT_GE(summary["sample"].get<std::string>().size(), 8U);
}

TEST(TrainRun, the_summary_is_a_page_for_people) {
  const std::string folder = text_folder("summary");
  const auto result = run_train(2, sampling_run(folder, {"--steps", "3"}));
  ASSERT_EQ(result.exit_code, 0) << result.err;
  for (const char* word :
       {"loss", "validation", "unigram entropy", "tokens/s", "0 bytes sent for 12 orthogonalized matrices per step",
        "full replication", "checkpoint", "metrics", "sample", "what to try next"}) {
    EXPECT_NE(result.out.find(word), std::string::npos) << word << " in " << result.out;
  }
  // What may be tried on the checkpoint, and what a run that goes on from it would refuse.
  EXPECT_EQ(result.out.find("from the checkpoint"), std::string::npos) << result.out;
  const auto kept = run_train(2, sampling_run(folder, {"--steps", "3", "--checkpoint-dir", folder + "/checkpoints"}));
  const std::size_t on = kept.out.find("train on from the checkpoint");
  const std::size_t anew = kept.out.find("from the start (quickstart.sh --fresh, or another --checkpoint-dir)");
  EXPECT_LT(on, anew) << kept.out;
  EXPECT_LT(anew, kept.out.find("--optimizer adamw")) << kept.out;
  const auto without = run_train(2, sampling_run(folder, {"--steps", "1", "--optimizer", "adamw"}));
  EXPECT_NE(without.out.find("0 bytes sent per step"), std::string::npos) << without.out;
}

// Bytes by purpose add up to what an independent interposer saw at the MPI boundary, with everything that a run does:
// several passes, validation, samples, checkpoints, metrics.
TEST(TrainRun, counted_bytes_are_those_an_interposer_counts) {
  for (const std::string strategy : {"matrix-fsdp", "fsdp2", "fsdp2-gather", "fsdp2-alltoall", "zero1-owner", "ddp"}) {
    const bool silent = strategy == "matrix-fsdp" || strategy == "ddp";
    const std::string folder = text_folder("bytes-" + strategy);
    const auto result =
        run_train(3,
                  sampling_run(folder, {"--steps", "4", "--strategy", strategy, "--eval-every", "2", "--metrics",
                                        folder + "/metrics.jsonl", "--checkpoint-dir", folder + "/checkpoints"}),
                  {{"LD_PRELOAD", MATRIXFSDP_PMPI}, {"MATRIXFSDP_PMPI_FILE", folder + "/pmpi"}});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    std::int64_t interposed = 0;
    for (int rank = 0; rank < 3; ++rank) {
      std::ifstream file(folder + "/pmpi." + std::to_string(rank));
      int found_rank = -1;
      std::int64_t bytes = 0;
      std::int64_t sends = 0;
      std::string uncounted;
      ASSERT_TRUE(file >> found_rank >> bytes >> sends);
      EXPECT_FALSE(file >> uncounted) << uncounted;  // calls that carry payload past the interposer
      interposed += bytes;
    }
    const auto lines = read_json_lines(folder + "/metrics.jsonl");
    const auto total = lines.back().at("bytes_total");
    std::int64_t counted = 0;
    for (const auto& purpose : total)
      counted += purpose.get<std::int64_t>();
    EXPECT_EQ(counted, interposed);
    EXPECT_GT(counted, 0);
    EXPECT_EQ(total["optimizer"] == 0, silent);
    const auto steps = steps_of(folder + "/metrics.jsonl");
    EXPECT_EQ(steps.size(), 4U);
    for (const auto& step : steps) {
      if (silent) {
        EXPECT_EQ(step["bytes"]["optimizer"], 0);
      }
    }
  }
}

// CASES 11: Newton-Schulz runs on every matrix once per step, whatever the number of passes and ranks.
TEST(TrainRun, every_matrix_is_orthogonalized_once_per_step) {
  const std::string folder = text_folder("matrices");
  for (const int ranks : {1, 4}) {
    for (const std::string micro : {"1", "3"}) {
      const auto result = run_train(
          ranks, sampling_run(folder, {"--steps", "2", "--micro-batch", micro, "--metrics", folder + "/m.jsonl"}));
      ASSERT_EQ(result.exit_code, 0) << result.err;
      const auto steps = steps_of(folder + "/m.jsonl");
      EXPECT_EQ(steps.size(), 2U);
      for (const auto& step : steps)
        EXPECT_EQ(step["matrices_orthogonalized"], 12);
    }
  }
}

// CASES 50: 3 + 3 steps are 6 steps, bit for bit, on other numbers of ranks too (CASES 52).
TEST(TrainRun, a_resumed_run_continues_bit_for_bit) {
  const std::string folder = text_folder("resume");
  auto whole = run_train(2, sampling_run(folder, {"--steps", "6", "--metrics", folder + "/whole.jsonl"}));
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const std::vector<std::string> resumable = {"--checkpoint-dir", folder + "/checkpoints", "--resume", "auto",
                                              "--metrics",        folder + "/parts.jsonl"};
  int ranks = 3;
  for (const std::string steps : {"3", "4", "6"}) {
    auto arguments = sampling_run(folder, resumable);
    arguments.insert(arguments.end(), {"--steps", steps});
    const auto part = run_train(ranks, arguments);
    ASSERT_EQ(part.exit_code, 0) << part.err;
    ranks = ranks == 3 ? 1 : 4;
  }
  const auto expected = steps_of(folder + "/whole.jsonl");
  const auto found = steps_of(folder + "/parts.jsonl");
  ASSERT_EQ(found.size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(found[i]["step"], expected[i]["step"]);
    EXPECT_EQ(found[i]["loss_bits"], expected[i]["loss_bits"]) << "step " << i + 1;
  }
}

TEST(TrainRun, a_folder_with_checkpoints_is_not_overwritten_by_accident) {
  const std::string folder = text_folder("accident");
  const auto arguments = sampling_run(folder, {"--steps", "2", "--checkpoint-dir", folder + "/checkpoints"});
  ASSERT_EQ(run_train(1, arguments).exit_code, 0);
  const auto again = run_train(1, arguments);
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_NE(again.err.find("--resume"), std::string::npos) << again.err;
}

TEST(TrainRun, a_finished_run_has_nothing_left_to_do) {
  const std::string folder = text_folder("finished");
  const auto arguments =
      sampling_run(folder, {"--steps", "2", "--checkpoint-dir", folder + "/checkpoints", "--resume", "auto"});
  ASSERT_EQ(run_train(2, arguments).exit_code, 0);
  const auto again = run_train(2, arguments);
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_NE(again.err.find("--steps"), std::string::npos) << again.err;
  EXPECT_NE(again.out.find("Nothing left to train: all 2 steps are done"), std::string::npos) << again.out;
  EXPECT_EQ(again.out.find("0.0000"), std::string::npos) << again.out;  // no figure of a step that was not taken
}

// FOLDER/latest may name a checkpoint that is damaged: the summary shows the one that the run went on from.
TEST(TrainRun, the_summary_shows_the_checkpoint_that_was_read_or_written) {
  const std::string folder = text_folder("shown");
  const auto run = [&](const std::string& steps, const std::string& resume) {
    const auto result = run_train(1, sampling_run(folder, {"--steps", steps, "--checkpoint-dir",
                                                           folder + "/checkpoints", "--resume", resume, "--json"}));
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out)["checkpoint"].get<std::string>();
  };
  const std::string second = folder + "/checkpoints/step_00000002";
  const std::string third = folder + "/checkpoints/step_00000003";
  EXPECT_EQ(run("2", "none"), second);
  EXPECT_EQ(run("3", "auto"), third);
  write_file(third + "/manifest.json", "damaged");
  EXPECT_EQ(run("2", "auto"), second);
  EXPECT_EQ(run("2", second), second);
}

// Token shards of llm.c train too; more ranks than matrices leave spare ranks, which is legal and said.
TEST(TrainRun, token_shards_and_spare_ranks) {
  const std::string folder = fresh_folder("shards");
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < 20000; ++i)
    tokens.push_back((i * i + i / 7) % 300);
  write_file(folder + "/train.bin", testing::token_shard(tokens));
  const auto result =
      run_train(8, {"--data", folder + "/train.bin", "--vocab-size", "300", "--layers", "1", "--hidden", "16",
                    "--heads", "2", "--seq-len", "16", "--batch-size", "8", "--steps", "2", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const auto summary = nlohmann::json::parse(result.out);
  EXPECT_EQ(summary["spare_ranks"], 4);  // four matrix parameters: qkv, output, up, down
  EXPECT_NE(result.err.find("spare"), std::string::npos) << result.err;
}

// The bound of the design, with the root: owned bytes on the fullest rank against an even split.
TEST(TrainRun, owned_memory_is_close_to_an_even_split) {
  const std::string folder = text_folder("memory");
  for (const int ranks : {4, 8}) {
    const auto result =
        run_train(ranks, {"--data", folder + "/text.txt", "--layers", "12", "--hidden", "96", "--heads", "4",
                          "--seq-len", "16", "--batch-size", "8", "--steps", "1", "--sample-tokens", "0", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto summary = nlohmann::json::parse(result.out);
    EXPECT_LE(summary["owned_bytes"].get<double>(), 1.10 * summary["replicated_bytes"].get<double>() / ranks) << ranks;
    EXPECT_EQ(summary["owned_bytes"], summary["predicted_owned_bytes"]);
    EXPECT_EQ(summary["window_bytes"], summary["predicted_window_bytes"]);
  }
}

// The losses are those of any other choice; the second run reads what the first one measured.
TEST(TrainRun, collectives_are_chosen_from_a_calibration_that_is_kept) {
  const std::string folder = text_folder("collectives");
  const std::string profile = folder + "/profile.json";
  std::vector<std::string> losses;
  std::string kept;
  for (const char* way : {"scatter", "auto", "auto"}) {
    std::vector<std::string> arguments = sampling_run(folder, {"--steps", "3", "--collective", way, "--json"});
    if (way == std::string("auto")) arguments.insert(arguments.end(), {"--collective-profile", profile});
    const auto result = run_train(3, arguments);
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto summary = nlohmann::json::parse(result.out);
    losses.push_back(summary["last_loss"].dump());
    EXPECT_EQ(summary["window_bytes"], summary["predicted_window_bytes"]);
    if (way == std::string("scatter")) continue;
    EXPECT_NE(result.err.find("collectives: unshard "), std::string::npos) << result.err;
    EXPECT_NE(result.err.find("inside nodes "), std::string::npos) << result.err;
    const std::string text = read_file(profile);
    if (!kept.empty()) {
      EXPECT_EQ(text, kept);
    }
    kept = text;
  }
  EXPECT_NE(kept, "");
  EXPECT_EQ(losses, std::vector<std::string>(3, losses[0]));
  EXPECT_FALSE(std::filesystem::exists(profile + ".tmp"));
}

TEST(TrainRun, losses_are_the_same_where_mpi_is_given_copies) {
  const std::string folder = text_folder("staging");
  std::vector<std::string> losses;
  for (const char* mode : {"auto", "on", "off"}) {
    const auto result = run_train(3, small_run(folder, {"--steps", "3", "--gpu-aware-mpi", mode, "--json"}));
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const auto summary = nlohmann::json::parse(result.out);
    losses.push_back(summary["last_loss"].dump());
    EXPECT_EQ(summary["backend"].get<std::string>().find("copied to host memory") != std::string::npos,
              mode == std::string("off"));
  }
  EXPECT_EQ(losses, std::vector<std::string>(3, losses[0]));
}

}  // namespace
}  // namespace matrixfsdp

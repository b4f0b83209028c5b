#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/bad_input.hpp"
#include "support/program.hpp"
#include "support/token_shards.hpp"

/// mfsdp-generate: a checkpoint continues a prompt.
namespace matrixfsdp {
namespace {

using Refused = std::pair<std::vector<std::string>, std::vector<std::string>>;  ///< arguments, and what is said
using nlohmann::json;
using testing::fresh_folder;
using testing::run_program;
using testing::run_train;
using testing::sample_text;
using testing::token_shard;
using testing::write_file;

const std::vector<std::string> shape = {"--layers", "2", "--hidden", "32", "--heads", "2", "--seq-len", "16"};

testing::ProgramResult generate(int ranks, const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {MATRIXFSDP_MPIEXEC, "-n", std::to_string(ranks), MATRIXFSDP_GENERATE};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_program(command);
}

json generated(int ranks, std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const auto result = generate(ranks, arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? json::parse(result.out) : json();
}

json train(int ranks, const std::string& folder, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = shape;
  arguments.insert(arguments.end(), {"--batch-size", "6", "--steps", "5", "--adamw-lr", "0.01", "--checkpoint-dir",
                                     folder + "/checkpoints", "--json"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  const auto result = run_train(ranks, arguments);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  return result.exit_code == 0 ? json::parse(result.out) : json();
}

TEST(FollowingGenerate, continues_as_the_run_itself_does_on_any_number_of_ranks) {
  const std::string folder = fresh_folder("generate");
  write_file(folder + "/text", sample_text(20000));
  // Longer than the context, so that it is cut on the way.
  const json summary = train(2, folder,
                             {"--data", folder + "/text", "--prompt", "the owner", "--sample-tokens", "24", "--seed",
                              "7", "--temperature", "0.9"});
  const std::vector<std::string> asked = {folder + "/checkpoints", "--prompt", "the owner", "--sample-tokens", "24",
                                          "--temperature",         "0.9"};
  const json one = generated(1, asked);
  EXPECT_EQ(one["step"], 5);
  EXPECT_EQ(one["seed"], 7);
  EXPECT_EQ(one["prompt"].size(), 9U);
  EXPECT_EQ(one["tokens"].size(), 24U);
  EXPECT_EQ(one["text"], summary["sample"]);
  for (const int ranks : {2, 3})
    EXPECT_EQ(generated(ranks, asked)["tokens"], one["tokens"]) << ranks;

  std::vector<std::string> other = asked;
  other.insert(other.end(), {"--seed", "8"});
  EXPECT_NE(generated(1, other)["tokens"], one["tokens"]);
  other.insert(other.end(), {"--temperature", "0"});
  const json greedy = generated(1, other);
  other.insert(other.end(), {"--seed", "9"});
  EXPECT_EQ(generated(2, other)["tokens"], greedy["tokens"]) << "nothing is drawn at temperature 0";

  const auto page = generate(2, asked);
  EXPECT_EQ(page.exit_code, 0);
  EXPECT_EQ(page.out.rfind("the owner", 0), 0U) << page.out;
}

TEST(FollowingGenerate, token_ids_where_the_run_had_shards) {
  const std::string folder = fresh_folder("generate-ids");
  std::vector<std::uint32_t> tokens;
  for (std::uint32_t i = 0; i < 4000; ++i)
    tokens.push_back(i * i % 300);
  write_file(folder + "/data.bin", token_shard(tokens));
  const json summary =
      train(2, folder,
            {"--data", folder + "/data.bin", "--vocab-size", "300", "--prompt", "7, 299 0", "--sample-tokens", "5"});
  const json ids = generated(3, {folder + "/checkpoints/step_00000005", "--prompt", "7 299 0", "--sample-tokens", "5"});
  EXPECT_EQ(ids["prompt"], (json{7, 299, 0}));
  EXPECT_EQ(ids["text"], summary["sample"]);
  EXPECT_EQ(summary["prompt"], "7 299 0 ");
  const json bytes = generated(1, {folder + "/checkpoints", "--tokens", "bytes", "--prompt", "a"});
  EXPECT_EQ(bytes["prompt"], (json{97}));
}

TEST(FollowingGenerate, an_imported_checkpoint_needs_its_model_and_no_optimizer_state) {
  const std::string folder = fresh_folder("generate-imported");
  write_file(folder + "/text", sample_text(20000));
  train(2, folder, {"--data", folder + "/text", "--sample-tokens", "0", "--optimizer", "adamw"});
  const std::string weights = folder + "/weights.safetensors";
  ASSERT_EQ(run_program({MATRIXFSDP_CKPT, "export", folder + "/checkpoints", "--safetensors", weights}).exit_code, 0);
  const auto import = run_program({MATRIXFSDP_CKPT, "import", folder + "/imported", "--safetensors", weights});
  ASSERT_EQ(import.exit_code, 0) << import.err;
  const std::vector<std::string> asked = {"--prompt", "the", "--temperature", "0", "--sample-tokens", "6"};
  std::vector<std::string> original = asked;
  original.insert(original.begin(), folder + "/checkpoints");
  std::vector<std::string> imported = asked;
  imported.insert(imported.begin(), folder + "/imported");
  const auto unknown = generate(2, imported);
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("does not say which model it is of; expected --model"), std::string::npos) << unknown.err;
  imported.insert(imported.end(), shape.begin(), shape.end());
  EXPECT_EQ(generated(2, imported)["tokens"], generated(1, original)["tokens"]);
}

TEST(FollowingGenerate, bad_input_is_one_line_and_exit_code_2) {
  const std::string folder = fresh_folder("generate-bad");
  std::vector<std::uint32_t> tokens(500, 7);
  write_file(folder + "/data.bin", token_shard(tokens));
  train(1, folder, {"--data", folder + "/data.bin", "--vocab-size", "300", "--sample-tokens", "0"});
  const std::string checkpoint = folder + "/checkpoints";
  for (const auto& [arguments, said] : std::vector<Refused>{
           {{"--prompt", "1"}, {"CHECKPOINT"}},
           {{checkpoint}, {"--prompt ''"}},
           {{checkpoint, "--prompt", " , "}, {"--prompt ' , '", "token ids"}},
           {{checkpoint, "--prompt", "17 once"}, {"--prompt '17 once'", "'once'", "token ids"}},
           {{checkpoint, "--prompt", "17 300"}, {"--prompt '17 300'", "token 300", "vocabulary of 300"}},
           {{checkpoint, "--prompt", "-1"}, {"--prompt", "-1"}},
           {{checkpoint, "--prompt", "1", "--model", "gpt2:d2"}, {"--model 'gpt2:d2'", "neither"}},
           {{checkpoint, "--prompt", "1", "--heads", "2"}, {"extents of a model: expected neither"}},
           {{checkpoint, "--prompt", "1", "--temperature", "warm"}, {"--temperature", "warm"}},
           {{checkpoint, "--prompt", "1", "--sample-tokens", "0"}, {"--sample-tokens", "at least 1"}},
           {{checkpoint, "--prompt", "1", "--tokens", "words"}, {"--tokens 'words'", "auto, bytes, ids"}},
           {{folder + "/data.bin", "--prompt", "1"}, {"data.bin", "folder"}},
           {{folder, "--prompt", "1"}, {folder, "step_N"}},
           {{folder + "/nowhere", "--prompt", "1"}, {"nowhere"}},
           {{checkpoint, "--prompt", "1", "--top-k", "3"}, {"--top-k"}}}) {
    const auto result = generate(2, arguments);
    testing::expect_refused(result, said);
  }
}

}  // namespace
}  // namespace matrixfsdp

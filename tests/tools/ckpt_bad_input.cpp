#include <filesystem>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "support/ckpt_program.hpp"
#include "support/golden_checkpoint.hpp"
#include "support/mutations.hpp"
#include "support/stored_checkpoint.hpp"

namespace matrixfsdp {
namespace {

using testing::ckpt;
using testing::fresh_folder;
using testing::golden_folder;
using testing::lines_of;
using testing::read_file;
using testing::write_file;

namespace fs = std::filesystem;

struct BadCkpt {
  std::string name;
  std::vector<std::string> arguments;  ///< FOLDER stands for the test's folder, GOLDEN for a checkpoint
  std::vector<std::string> said;       ///< what the line must name
};

void PrintTo(const BadCkpt& bad, std::ostream* out) {
  *out << bad.name;
}

class BadCkptTest : public ::testing::TestWithParam<BadCkpt> {};

TEST_P(BadCkptTest, is_one_clear_line_and_exit_code_2) {
  const BadCkpt& bad = GetParam();
  const std::string folder = fresh_folder("bad-" + bad.name);
  write_file(folder + "/text", "not a checkpoint");
  fs::create_directories(folder + "/empty");
  fs::create_directories(folder + "/nested/step_00000001");
  write_file(folder + "/nested/step_00000001/manifest.json", "{\"format\": " + std::string(200000, '['));
  std::vector<std::string> arguments;
  for (std::string word : bad.arguments) {
    if (const auto at = word.find("FOLDER"); at != std::string::npos) word.replace(at, 6, folder);
    if (word == "GOLDEN") word = golden_folder(2);
    arguments.push_back(word);
  }
  const auto result = ckpt(arguments);
  EXPECT_EQ(result.exit_code, 2) << result.out << result.err;
  EXPECT_EQ(result.out, "");
  const auto lines = lines_of(result.err);
  ASSERT_EQ(lines.size(), 1U) << result.err;
  EXPECT_LT(lines[0].size(), 1000U);
  for (const std::string& word : bad.said)
    EXPECT_NE(lines[0].find(word), std::string::npos) << word << " in: " << lines[0];
}

INSTANTIATE_TEST_SUITE_P(
    ckpt, BadCkptTest,
    ::testing::Values(
        BadCkpt{"no_command", {}, {"--help"}}, BadCkpt{"unknown_command", {"list", "x"}, {"list", "--help"}},
        BadCkpt{"unknown_option", {"ls", "GOLDEN", "--deep"}, {"--deep"}},
        BadCkpt{"no_folder", {"verify", "FOLDER/nowhere"}, {"nowhere", "not a folder"}},
        BadCkpt{"a_file", {"show", "FOLDER/text"}, {"text", "not a folder"}},
        BadCkpt{"ls_of_a_file", {"ls", "FOLDER/text"}, {"text", "not a folder"}},
        BadCkpt{"empty", {"show", "FOLDER/empty"}, {"empty", "manifest.json", "step_N"}},
        BadCkpt{"nested", {"show", "FOLDER/nested"}, {"manifest.json", "nested"}},
        BadCkpt{"no_such_parameter", {"show", "GOLDEN", "down*"}, {"down*", "no parameter"}},
        BadCkpt{"no_second", {"diff", "GOLDEN"}, {"B", "required"}},
        BadCkpt{"tolerance", {"diff", "GOLDEN", "GOLDEN", "--rtol", "-1"}, {"--rtol", "-1"}},
        BadCkpt{"tolerance_is_text", {"diff", "GOLDEN", "GOLDEN", "--atol", "nan"}, {"--atol", "nan"}},
        BadCkpt{"ranks", {"reshard", "GOLDEN", "FOLDER/new", "--ranks", "0"}, {"--ranks", "at least 1"}},
        BadCkpt{"many_ranks", {"reshard", "GOLDEN", "FOLDER/new", "--ranks", "65537"}, {"--ranks 65537", "65536"}},
        BadCkpt{"planner", {"reshard", "GOLDEN", "FOLDER/new", "--planner", "best"}, {"best", "balanced"}},
        BadCkpt{"not_a_transformer",
                {"export", "GOLDEN", "--safetensors", "FOLDER/new", "--names", "huggingface"},
                {"'up'", "--names matrixfsdp"}},
        BadCkpt{
            "names", {"export", "GOLDEN", "--safetensors", "FOLDER/new", "--names", "mine"}, {"mine", "huggingface"}},
        BadCkpt{"not_safetensors", {"import", "FOLDER/new", "--safetensors", "FOLDER/text"}, {"text", "header"}}),
    [](const auto& bad) { return bad.param.name; });

/// A checkpoint whose manifest vouches for a damaged file: what someone who wants to harm would make.
void vouch(const std::string& step, const std::string& name) {
  io::Manifest manifest = io::read_manifest(step);
  for (io::StoredFile& file : manifest.files) {
    if (file.name == name) file = io::describe_file(step, name);
  }
  write_file(step + "/manifest.json", to_text(manifest));
}

// CASES 64: whatever HDF5 makes of a malformed file, the program ends with a verdict, not with a signal. The first
// bytes are those of the structure; a checkpoint that is called valid holds what it held before.
TEST(CkptProgram, survives_malformed_files_that_a_manifest_vouches_for) {
  const std::string folder = fresh_folder("malformed");
  fs::copy(fs::path(golden_folder(2)), folder + "/step_00000012");
  const std::string step = folder + "/step_00000012";
  const std::string manifest = read_file(step + "/manifest.json");
  int refused = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    const std::string name = i % 3 == 0 ? "checkpoint.h5" : "rank_00000.h5";
    const std::string good = read_file(step + "/" + name);
    const std::string bad = i == 0 ? "" : testing::mutated(good, 5, i);
    write_file(step + "/" + name, bad);
    vouch(step, name);
    const auto verdict = ckpt({"verify", step});
    EXPECT_TRUE(verdict.exit_code >= 0 && verdict.exit_code <= 2) << i << ": " << verdict.exit_code << verdict.err;
    if (verdict.exit_code == 0) {
      EXPECT_EQ(ckpt({"diff", "--all", step, golden_folder(2)}).exit_code, 0) << i;
    } else {
      ++refused;
    }
    write_file(step + "/" + name, good);
    write_file(step + "/manifest.json", manifest);
  }
  EXPECT_GT(refused, 20);
}

// And without such a manifest the file is not even opened.
TEST(CkptProgram, refuses_files_that_are_not_what_the_manifest_says) {
  const std::string folder = fresh_folder("refuses");
  fs::copy(fs::path(golden_folder(2)), folder + "/step_00000012");
  const std::string step = folder + "/step_00000012";
  const std::string good = read_file(step + "/rank_00000.h5");
  for (const std::string& bad : {std::string(), std::string("text"), good.substr(0, good.size() - 1),
                                 good + std::string(1000, 'x'), std::string(good.size(), '\xff')}) {
    write_file(step + "/rank_00000.h5", bad);
    EXPECT_EQ(ckpt({"verify", step}).exit_code, 1);
    for (const std::vector<std::string>& arguments :
         std::vector<std::vector<std::string>>{{"show", step, "--stats"},
                                               {"diff", step, golden_folder(2)},
                                               {"reshard", step, folder + "/new"},
                                               {"export", step, "--safetensors", folder + "/file"}}) {
      const auto result = ckpt(arguments);
      EXPECT_EQ(result.exit_code, 2) << arguments[0];
      EXPECT_NE(result.err.find("rank_00000.h5"), std::string::npos) << result.err;
    }
  }
}

}  // namespace
}  // namespace matrixfsdp

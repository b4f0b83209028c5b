#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "support/bad_input.hpp"
#include "support/ckpt_program.hpp"
#include "support/golden_checkpoint.hpp"
#include "support/mutations.hpp"
#include "support/stored_checkpoint.hpp"

namespace matrixfsdp {
namespace {

using testing::BadInput;
using testing::ckpt;
using testing::fresh_folder;
using testing::golden_folder;
using testing::read_file;
using testing::write_file;

namespace fs = std::filesystem;

/// GOLDEN stands for a checkpoint.
class BadCkptTest : public ::testing::TestWithParam<BadInput> {};

TEST_P(BadCkptTest, is_one_clear_line_and_exit_code_2) {
  const BadInput& bad = GetParam();
  const std::string folder = fresh_folder("bad-" + bad.name);
  write_file(folder + "/text", "not a checkpoint");
  fs::create_directories(folder + "/empty");
  fs::create_directories(folder + "/nested/step_00000001");
  write_file(folder + "/nested/step_00000001/manifest.json", "{\"format\": " + std::string(200000, '['));
  std::vector<std::string> arguments = arguments_of(bad, folder);
  std::replace(arguments.begin(), arguments.end(), std::string("GOLDEN"), golden_folder(2));
  const auto result = ckpt(arguments);
  testing::expect_refused(result, bad.said);
  EXPECT_LT(result.err.size(), 1000U);
}

INSTANTIATE_TEST_SUITE_P(
    ckpt, BadCkptTest,
    ::testing::Values(
        BadInput{"no_command", {}, {"--help"}}, BadInput{"unknown_command", {"list", "x"}, {"list", "--help"}},
        BadInput{"unknown_option", {"ls", "GOLDEN", "--deep"}, {"--deep"}},
        BadInput{"no_folder", {"verify", "FOLDER/nowhere"}, {"nowhere", "not a folder"}},
        BadInput{"a_file", {"show", "FOLDER/text"}, {"text", "not a folder"}},
        BadInput{"ls_of_a_file", {"ls", "FOLDER/text"}, {"text", "not a folder"}},
        BadInput{"empty", {"show", "FOLDER/empty"}, {"empty", "manifest.json", "step_N"}},
        BadInput{"nested", {"show", "FOLDER/nested"}, {"manifest.json", "nested"}},
        BadInput{"no_such_parameter", {"show", "GOLDEN", "down*"}, {"down*", "no parameter"}},
        BadInput{"no_second", {"diff", "GOLDEN"}, {"B", "required"}},
        BadInput{"tolerance", {"diff", "GOLDEN", "GOLDEN", "--rtol", "-1"}, {"--rtol", "-1"}},
        BadInput{"tolerance_is_text", {"diff", "GOLDEN", "GOLDEN", "--atol", "nan"}, {"--atol", "nan"}},
        BadInput{"ranks", {"reshard", "GOLDEN", "FOLDER/new", "--ranks", "0"}, {"--ranks", "at least 1"}},
        BadInput{"many_ranks", {"reshard", "GOLDEN", "FOLDER/new", "--ranks", "65537"}, {"--ranks 65537", "65536"}},
        BadInput{"planner", {"reshard", "GOLDEN", "FOLDER/new", "--planner", "best"}, {"best", "balanced"}},
        BadInput{"not_a_transformer",
                 {"export", "GOLDEN", "--safetensors", "FOLDER/new", "--names", "huggingface"},
                 {"'up'", "--names matrixfsdp"}},
        BadInput{
            "names", {"export", "GOLDEN", "--safetensors", "FOLDER/new", "--names", "mine"}, {"mine", "huggingface"}},
        BadInput{"not_safetensors", {"import", "FOLDER/new", "--safetensors", "FOLDER/text"}, {"text", "header"}}),
    testing::name_of_case);

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

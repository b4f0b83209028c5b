#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "support/bad_input.hpp"
#include "support/program.hpp"
#include "support/token_shards.hpp"

/// mfsdp-tokenize: text, or ids, to llm.c's token shards.
namespace matrixfsdp {
namespace {

using Refused = std::pair<std::vector<std::string>, std::vector<std::string>>;  ///< arguments, and what is said
using testing::fresh_folder;
using testing::lines_of;
using testing::read_file;
using testing::run_program;
using testing::run_train;
using testing::sample_text;
using testing::token_shard;
using testing::write_file;

testing::ProgramResult tokenize(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), MATRIXFSDP_TOKENIZE);
  return run_program(arguments);
}

std::vector<std::uint32_t> bytes_of(const std::string& text) {
  std::vector<std::uint32_t> tokens;
  for (const char c : text)
    tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

TEST(FollowingTokenize, every_byte_of_every_file_is_a_token) {
  const std::string folder = fresh_folder("tokenize");
  std::string all;
  for (int byte = 255; byte >= 0; --byte)
    all.push_back(static_cast<char>(byte));
  const std::string more = "a\r\n\n" + sample_text(200000);
  write_file(folder + "/first", all);
  std::filesystem::create_directories(folder + "/inside");
  write_file(folder + "/inside/b.txt", more);
  write_file(folder + "/inside/a.txt", "begin");
  const auto result = tokenize({folder + "/first", folder + "/inside", "-o", folder + "/all.bin"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("all.bin: " + std::to_string(all.size() + 5 + more.size()) + " tokens, llm.c uint16"),
            std::string::npos)
      << result.out;
  EXPECT_TRUE(read_file(folder + "/all.bin") == token_shard(bytes_of(all + "begin" + more)));
}

TEST(FollowingTokenize, ids_of_another_tokenizer) {
  const std::string folder = fresh_folder("tokenize-ids");
  write_file(folder + "/a.txt", "50256 0\t65535\r\n\n 17\n");
  write_file(folder + "/b.txt", "3");
  ASSERT_EQ(tokenize({"--ids", folder + "/a.txt", folder + "/b.txt", "-o", folder + "/a.bin"}).exit_code, 0);
  EXPECT_TRUE(read_file(folder + "/a.bin") == token_shard({50256, 0, 65535, 17, 3}));
  write_file(folder + "/large.txt", "128255 65536 2147483647");
  ASSERT_EQ(tokenize({"--ids", "--uint32", folder + "/large.txt", "-o", folder + "/large.bin"}).exit_code, 0);
  EXPECT_TRUE(read_file(folder + "/large.bin") == token_shard({128255, 65536, 2147483647}, 20240801, 7, 4));
}

std::vector<std::string> trained(const std::string& folder, std::vector<std::string> data) {
  data.insert(data.end(), {"--layers", "1", "--hidden", "16", "--heads", "2", "--seq-len", "16", "--batch-size", "4",
                           "--steps", "3", "--sample-tokens", "4", "--metrics", folder + "/metrics"});
  const auto result = run_train(2, data);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  std::vector<std::string> losses;
  for (const auto& line : testing::read_json_lines(folder + "/metrics")) {
    if (line.contains("loss_bits")) losses.push_back(line["loss_bits"]);
    if (line.contains("validation_loss")) losses.push_back(line["validation_loss"].dump());
  }
  return losses;
}

TEST(FollowingTokenize, shards_train_what_their_text_does) {
  const std::string folder = fresh_folder("tokenize-train");
  const std::string text = sample_text(30001);
  write_file(folder + "/text", text);
  const auto result = tokenize({folder + "/text", "-o", folder + "/book.bin", "--validation", "0.1"});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(lines_of(result.out).size(), 2U) << result.out;
  EXPECT_TRUE(read_file(folder + "/book.bin") == token_shard(bytes_of(text.substr(0, 27001))));
  EXPECT_TRUE(read_file(folder + "/book_val.bin") == token_shard(bytes_of(text.substr(27001))));
  const auto of_text = trained(folder, {"--data", folder + "/text", "--val-fraction", "0.1"});
  ASSERT_EQ(of_text.size(), 4U);
  EXPECT_EQ(trained(folder, {"--data", folder + "/book.bin", "--val", folder + "/book_val.bin"}), of_text);
}

TEST(FollowingTokenize, nothing_is_overwritten) {
  const std::string folder = fresh_folder("tokenize-twice");
  write_file(folder + "/text", sample_text(1000));
  write_file(folder + "/new_val.bin", "mine");
  const auto validation = tokenize({folder + "/text", "-o", folder + "/new.bin", "--validation", "0.5"});
  EXPECT_EQ(validation.exit_code, 2);
  EXPECT_NE(validation.err.find("new_val.bin': is there already"), std::string::npos) << validation.err;
  EXPECT_EQ(read_file(folder + "/new_val.bin"), "mine");
  EXPECT_FALSE(std::filesystem::exists(folder + "/new.bin")) << "both files or none";
}

TEST(FollowingTokenize, bad_input_is_one_line_and_leaves_no_file) {
  const std::string folder = fresh_folder("tokenize-bad");
  write_file(folder + "/text", "some text");
  write_file(folder + "/empty", "");
  write_file(folder + "/blank", " \n");
  write_file(folder + "/ids", "1 2\n3 4x 5\n");
  write_file(folder + "/negative", "-1");
  write_file(folder + "/large", "1\n\n65536");
  write_file(folder + "/shard.bin", token_shard({1, 2, 3}));
  const std::string out = folder + "/out.bin";
  for (const auto& [arguments, said] :
       std::vector<Refused>{{{"-o", out}, {"FILES", "at least one"}},
                            {{folder + "/text"}, {"-o", ".bin"}},
                            {{folder + "/text", "-o", folder + "/out.txt"}, {"out.txt", ".bin"}},
                            {{folder + "/text", "-o", folder + "/none/out.bin"}, {"none/out.bin", "created"}},
                            {{folder + "/nowhere", "-o", out}, {"nowhere", "opened"}},
                            {{folder + "/empty", "-o", out}, {"empty", "is empty"}},
                            {{folder + "/shard.bin", "-o", out}, {"shard.bin", "expected text"}},
                            {{folder + "/text", "-o", out, "--validation", "1"}, {"--validation", "'1'", "0.9"}},
                            {{folder + "/text", "-o", out, "--validation", "0.01"}, {"--validation 0.01", "9 tokens"}},
                            {{folder + "/text", "-o", out, "--bytes"}, {"--bytes"}},
                            {{"--ids", folder + "/ids", "-o", out}, {"ids', line 2", "'4x'", "0 to 65535"}},
                            {{"--ids", folder + "/negative", "-o", out}, {"negative', line 1", "'-1'"}},
                            {{"--ids", folder + "/large", "-o", out}, {"large', line 3", "65536", "--uint32"}},
                            {{"--ids", folder + "/blank", "-o", out}, {"blank", "no tokens"}},
                            {{"--ids", folder + "/nowhere", "-o", out}, {"nowhere", "cannot be read"}},
                            {{"--ids", folder, "-o", out}, {"not a regular file"}}}) {
    const auto result = tokenize(arguments);
    testing::expect_refused(result, said);
    EXPECT_FALSE(std::filesystem::exists(out)) << result.err;
  }
}

// Files are read twice, to know where to cut before anything is written.
TEST(FollowingTokenize, a_pipe_of_ids_is_refused) {
  const std::string folder = fresh_folder("tokenize-pipe");
  const std::string pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto result = run_program({MATRIXFSDP_TOKENIZE, "--ids", pipe, "-o", folder + "/out.bin"}, {}, 20);
  testing::expect_refused(result, {"file '" + pipe + "'", "not a regular file", "token ids"});
}

}  // namespace
}  // namespace matrixfsdp

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/bad_input.hpp"
#include "support/token_shards.hpp"

namespace matrixfsdp {
namespace {

using testing::BadInput;
using testing::fresh_folder;
using testing::run_train;
using testing::sample_text;
using testing::token_shard;
using testing::write_file;

const std::vector<BadInput>& bad_inputs() {
  static const std::vector<BadInput> all = {
      {"unknown_option", {"--data", "FOLDER/text", "--learning-rat", "1"}, {"--learning-rat"}},
      {"unknown_value", {"--data", "FOLDER/text", "--planner", "best"}, {"best", "balanced"}},
      {"reshard", {"--data", "FOLDER/text", "--reshard", "1"}, {"--reshard", "1", "yes"}},
      {"reshard_to_no_divisor", {"--data", "FOLDER/text", "--reshard", "5"}, {"reshard to 5", "divisor"}},
      {"shard_size", {"--data", "FOLDER/text", "--shard-size", "5"}, {"--shard-size", "5", "divides"}},
      {"shard_size_of_ddp",
       {"--data", "FOLDER/text", "--strategy", "ddp", "--shard-size", "1"},
       {"--shard-size", "1", "ddp"}},
      {"unknown_strategy",
       {"--data", "FOLDER/text", "--strategy", "fsdp3"},
       {"--strategy", "fsdp3", "fsdp2-alltoall", "zero1-owner"}},
      {"shard_size_of_zero1",
       {"--data", "FOLDER/text", "--strategy", "zero1-owner", "--shard-size", "1"},
       {"--shard-size", "1", "zero1-owner"}},
      {"padded_row_shards",
       {"--data", "FOLDER/text", "--strategy", "fsdp2-gather", "--collective", "padded"},
       {"padded", "fsdp2-gather"}},
      {"row_shards_that_stay_among_two",
       {"--data", "FOLDER/text", "--strategy", "fsdp2", "--reshard", "2"},
       {"reshard", "2", "fsdp2", "yes or no"}},
      {"bfloat16_of_resident_weights",
       {"--data", "FOLDER/text", "--strategy", "zero1-owner", "--param-dtype", "bfloat16"},
       {"bfloat16", "zero1-owner", "float32"}},
      {"verify_fsdp2", {"--data", "FOLDER/text", "--strategy", "fsdp2", "--verify"}, {"--verify", "fsdp2", "adamw"}},
      {"unknown_param_dtype",
       {"--data", "FOLDER/text", "--param-dtype", "float16"},
       {"--param-dtype", "float16", "bfloat16"}},
      {"unknown_math", {"--data", "FOLDER/text", "--math", "tf16"}, {"--math", "tf16", "tf32"}},
      {"wide_reduce_dtype",
       {"--data", "FOLDER/text", "--reduce-dtype", "float64"},
       {"--reduce-dtype", "float64", "float32"}},
      {"policy_without_unit",
       {"--data", "FOLDER/text", "--unit-policy", "param-dtype=bfloat16"},
       {"NAME:KEY=VALUE", "reduce-dtype"}},
      {"policy_with_empty_unit",
       {"--data", "FOLDER/text", "--unit-policy", ":param-dtype=bfloat16"},
       {"NAME:KEY=VALUE"}},
      {"policy_without_key", {"--data", "FOLDER/text", "--unit-policy", "root:"}, {"root:", "key ''", "param-dtype"}},
      {"policy_with_unknown_key",
       {"--data", "FOLDER/text", "--unit-policy", "root:dtype=bfloat16"},
       {"key 'dtype'", "param-dtype"}},
      {"policy_with_unknown_value",
       {"--data", "FOLDER/text", "--unit-policy", "root:param-dtype=half"},
       {"root:param-dtype=half", "'half'", "bfloat16"}},
      {"policy_without_value",
       {"--data", "FOLDER/text", "--unit-policy", "root:param-dtype"},
       {"root:param-dtype", "''", "bfloat16"}},
      {"policy_that_ends_early",
       {"--data", "FOLDER/text", "--unit-policy", "root:param-dtype=float32,"},
       {"key ''", "param-dtype"}},
      {"policy_of_unknown_unit",
       {"--data", "FOLDER/text", "--unit-policy", "block.9:param-dtype=bfloat16"},
       {"block.9", "root, block.0"}},
      {"unknown_collective", {"--data", "FOLDER/text", "--collective", "ring"}, {"ring", "chain", "auto"}},
      {"profile_without_auto",
       {"--data", "FOLDER/text", "--collective-profile", "FOLDER/new"},
       {"--collective-profile", "new", "auto"}},
      {"profile_is_text",
       {"--data", "FOLDER/text", "--collective", "auto", "--collective-profile", "FOLDER/text"},
       {"--collective-profile", "text", "JSON"}},
      {"profile_of_other_ranks",
       {"--data", "FOLDER/text", "--collective", "auto", "--collective-profile", "FOLDER/profile"},
       {"--collective-profile", "profile", "16 ranks on 2 nodes", "2 ranks on 1 nodes"}},
      {"profile_nowhere",
       {"--data", "FOLDER/text", "--collective", "auto", "--collective-profile", "FOLDER/no/such/file"},
       {"--collective-profile", "no/such/file", "opened"}},
#ifdef MATRIXFSDP_WITHOUT_NCCL
      {"nccl_not_built_in",
       {"--data", "FOLDER/text", "--backend", "nccl"},
       {"--backend 'nccl'", "no NCCL", "MATRIXFSDP_ENABLE_NCCL", "auto or mpi"}},
#endif
      {"unknown_backend", {"--data", "FOLDER/text", "--backend", "gloo"}, {"--backend", "gloo", "auto, mpi, nccl"}},
      {"unknown_staging",
       {"--data", "FOLDER/text", "--gpu-aware-mpi", "maybe"},
       {"--gpu-aware-mpi", "maybe", "auto, on, off"}},
      {"unknown_model", {"--data", "FOLDER/text", "--model", "gpt9"}, {"gpt9", "gpt2"}},
      {"not_a_number", {"--data", "FOLDER/text", "--steps", "many"}, {"--steps", "many", "integer"}},
      {"zero", {"--data", "FOLDER/text", "--steps", "0"}, {"--steps", "0", "at least 1"}},
      {"negative", {"--data", "FOLDER/text", "--hidden", "-64"}, {"--hidden", "-64", "at least 1"}},
      {"no_data", {"--steps", "3"}, {"--data"}},
      {"missing_file", {"--data", "FOLDER/nowhere"}, {"nowhere"}},
      {"missing_validation", {"--data", "FOLDER/text", "--val", "FOLDER/nowhere"}, {"nowhere"}},
      {"empty_file", {"--data", "FOLDER/empty"}, {"empty"}},
      {"too_short", {"--data", "FOLDER/short", "--seq-len", "512"}, {"600", "513"}},
      {"other_version", {"--data", "FOLDER/version.bin"}, {"version.bin", "7", "1"}},
      {"other_magic", {"--data", "FOLDER/magic.bin"}, {"magic.bin", "20240520"}},
      {"odd_size", {"--data", "FOLDER/odd.bin"}, {"odd.bin"}},
      {"vocabulary", {"--data", "FOLDER/large.bin", "--vocab-size", "1000", "--seq-len", "8"}, {"1000"}},
      {"text_vocabulary", {"--data", "FOLDER/text", "--vocab-size", "100"}, {"100"}},
      {"heads", {"--data", "FOLDER/text", "--hidden", "100", "--heads", "3"}, {"heads", "3", "100"}},
      {"kv_heads", {"--data", "FOLDER/text", "--model", "llama", "--heads", "4", "--kv-heads", "3"}, {"3", "4"}},
      {"kv_heads_of_gpt2", {"--data", "FOLDER/text", "--heads", "4", "--kv-heads", "1"}, {"gpt2", "kv heads 1", "4"}},
      {"batch", {"--data", "FOLDER/text", "--batch-size", "7", "--micro-batch", "2"}, {"7", "4"}},
      {"resume_nowhere", {"--data", "FOLDER/text", "--resume", "FOLDER/nowhere"}, {"nowhere"}},
      {"resume_nothing", {"--data", "FOLDER/text", "--resume", ""}, {"--resume ''", "auto"}},
      {"prompt_for_tokens",
       {"--data", "FOLDER/good.bin", "--vocab-size", "1001", "--seq-len", "8", "--prompt", "once"},
       {"--prompt", "once", "text"}},
      {"metrics_nowhere", {"--data", "FOLDER/text", "--metrics", "FOLDER/no/such/file"}, {"no/such/file"}},
      {"config_nowhere", {"--data", "FOLDER/text", "--config", "FOLDER/no.toml"}, {"no.toml"}},
      {"checkpoint_is_a_file", {"--data", "FOLDER/text", "--checkpoint-dir", "FOLDER/text"}, {"text"}},
  };
  return all;
}

std::string prepared_folder(const std::string& name) {
  std::string folder = fresh_folder("bad-input-" + name);
  write_file(folder + "/text", sample_text(20000));
  write_file(folder + "/short", sample_text(600));
  write_file(folder + "/empty", "");
  const std::vector<std::uint32_t> tokens(500, 7);
  const std::vector<std::uint32_t> large(500, 1000);
  write_file(folder + "/version.bin", token_shard(tokens, 20240520, 7));
  write_file(folder + "/magic.bin", token_shard(tokens, 12345));
  write_file(folder + "/odd.bin", token_shard(tokens) + "x");
  write_file(folder + "/good.bin", token_shard(tokens));
  write_file(folder + "/large.bin", token_shard(large));
  write_file(folder + "/profile", testing::collective_profile(16, 2));
  return folder;
}

class BadInputTest : public ::testing::TestWithParam<BadInput> {};

// One line that names thing, value and expectation, exit code 2, from rank 0 only; all ranks end.
TEST_P(BadInputTest, is_one_clear_line_and_exit_code_2) {
  const BadInput& bad = GetParam();
  const std::string folder = prepared_folder(bad.name);
  testing::expect_refused(run_train(2, arguments_of(bad, folder), {}, 60), bad.said);
}

INSTANTIATE_TEST_SUITE_P(train, BadInputTest, ::testing::ValuesIn(bad_inputs()), testing::name_of_case);

}  // namespace
}  // namespace matrixfsdp

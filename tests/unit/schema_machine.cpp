#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/machine_description.hpp>
#include <matrixfsdp/schema/optimizer_profile.hpp>

#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace matrixfsdp {
namespace {

Machine machine() {
  Machine result = machine_preset("a100-8x8");
  result.name = "a \"cluster\"";
  result.inside.latency_seconds = 1.0 / 3;
  result.memory_bytes_per_second = 1e300;
  result.slow_ranks = {{2, 1.25}, {63, 2}};
  return result;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

struct Case {
  std::string text;
  std::vector<std::string> said;
};

TEST(SchemaMachine, the_same_bits_are_read_again) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/machine.json";
  io::write_machine(path, machine());
  const Machine read = io::read_machine(path);
  EXPECT_EQ(read.name, machine().name);
  EXPECT_EQ(read.inside.latency_seconds, 1.0 / 3);
  EXPECT_EQ(read.slow_ranks.size(), 2U);
  EXPECT_EQ(read.slowness(2), 1.25);
  EXPECT_EQ(io::to_text(read), io::read_text(path));
}

TEST(SchemaMachine, what_is_wrong_is_named) {
  const std::string good = io::to_text(machine());
  const std::vector<Case> cases = {
      {"{", {"is not JSON"}},
      {replaced(good, "matrixfsdp machine", "other"), {"format", "other", "matrixfsdp machine"}},
      {replaced(good, "\"format_version\": 1", "\"format_version\": 3"), {"format_version", "3", "expected 1"}},
      {replaced(good, "\"nodes\": 8", "\"nodes\": 0"), {"nodes", "0", "from 1"}},
      {replaced(good, "\"nodes\": 8", "\"nodes\": 8.5"), {"nodes", "8.5"}},
      {replaced(good, "\"ranks_per_node\": 8", "\"ranks\": 8"), {"ranks_per_node", "missing"}},
      {replaced(good, "\"memory_bytes\": 80000000000.0", "\"memory_bytes\": -1"), {"memory_bytes -1", "above 0"}},
      {replaced(good, "\"gemm_flops_per_second\": 1", "\"gemm_flops_per_second\": \"fast\", \"x\": 1"),
       {"gemm_flops_per_second", "a number"}},
      {replaced(good, "\"rank\": 63", "\"rank\": 64"), {"slow_ranks[1].rank", "64", "to 63"}},
      {replaced(good, "\"factor\": 2.0", "\"factor\": 0.5"), {"factor 0.5", "at least 1"}},
      {replaced(good, "\"nodes\": 8", "\"nodes\": 8, \"extra\": 1"), {"extra", "unknown"}},
      {replaced(good, "\"between\": {", "\"between\": {\"gamma\": 1, "), {"between.gamma", "unknown"}},
  };
  for (const Case& bad : cases) {
    const std::string message = test::message_of<IoError>([&] { io::parse_machine(bad.text, "machine.json"); });
    EXPECT_NE(message.find("'machine.json'"), std::string::npos) << message;
    for (const std::string& word : bad.said)
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
  }
  EXPECT_THROW(io::read_machine("/no/such/file"), IoError);
  Machine bad = machine();
  bad.nodes = 0;
  EXPECT_THROW(io::to_text(bad), InputError);
}

OptimizerProfile profile() {
  OptimizerProfile result;
  result.world_size = 2;
  result.measured = {{0, {768, 256, 3}, 9, 1.0 / 3}, {1, {256, 1024, 1}, 18, 2e-5}};
  return result;
}

std::string metrics(const std::string& object) {
  return "{\"step\":1,\"loss\":2.5}\n\n{\"step\":2,\"optimizer_profile\":" + object + "}\n{\"bytes_total\":{}}\n";
}

TEST(SchemaOptimizerProfile, the_last_of_a_metrics_file_is_read) {
  const OptimizerProfile read = io::parse_optimizer_profile(metrics(io::to_text(profile())), "run.jsonl");
  EXPECT_EQ(read.world_size, 2);
  ASSERT_EQ(read.measured.size(), 2U);
  EXPECT_EQ(read.measured[0].seconds, 1.0 / 3);
  EXPECT_EQ(read.measured[1].work, (MatrixWork{256, 1024, 1}));
  EXPECT_EQ(read.measured[1].steps, 18);
  OptimizerProfile later = profile();
  later.measured.pop_back();
  const std::string both = metrics(io::to_text(profile())) + metrics(io::to_text(later));
  EXPECT_EQ(io::parse_optimizer_profile(both, "run.jsonl").measured.size(), 1U);
}

TEST(SchemaOptimizerProfile, what_is_wrong_is_named) {
  const std::string good = io::to_text(profile());
  const std::vector<Case> cases = {
      {"{\"step\":1}\n", {"'run.jsonl'", "1 lines", "optimizer_profile"}},
      {"", {"'run.jsonl'", "0 lines"}},
      {metrics("7"), {"run.jsonl:3"}},
      {metrics(good).substr(0, 80), {"run.jsonl:3", "is not JSON"}},
      {metrics(replaced(good, "\"rank\":1", "\"rank\":2")), {"run.jsonl:3", "measured[1].rank", "2", "to 1"}},
      {metrics(replaced(good, "\"steps\":9", "\"steps\":0")), {"measured[0].steps", "0"}},
      {metrics(replaced(good, "\"seconds\":2e-05", "\"seconds\":-2e-05")), {"-2e-05 seconds", "above 0"}},
      {metrics(replaced(good, "\"parts\"", "\"part\"")), {"measured[0].parts", "missing"}},
      {metrics(replaced(good, "\"world_size\":2", "\"world_size\":0")), {"world_size", "0"}},
  };
  for (const Case& bad : cases) {
    const std::string message = test::message_of<IoError>([&] { io::parse_optimizer_profile(bad.text, "run.jsonl"); });
    for (const std::string& word : bad.said)
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
  }
  EXPECT_THROW(io::read_optimizer_profile("/no/such/file"), IoError);
  EXPECT_THROW(io::to_text(OptimizerProfile{}), InputError);
}

}  // namespace
}  // namespace matrixfsdp

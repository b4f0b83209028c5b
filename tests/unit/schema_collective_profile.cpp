#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/collective_profile.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "support/messages.hpp"
#include "support/temporary_folder.hpp"

namespace matrixfsdp {
namespace {

CollectiveProfile profile() {
  CollectiveProfile result;
  result.world_size = 8;
  result.nodes = 4;
  result.inside = LinkModel{1.0 / 3, 1e-300, 0.1, 0.30000000000000004, 5e-324, 1.7976931348623157e308};
  result.between = LinkModel{2e-6, 0, 4e-11, 4e-11, 5e-11, 1.25};
  result.corrections = {{CollectiveOperation::unshard, CollectiveAlgorithm::chain, false, 65536, 1.0 / 7},
                        {CollectiveOperation::reduce, CollectiveAlgorithm::scatter, true, 1 << 20, 2.5}};
  return result;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(SchemaCollectiveProfile, the_same_bits_are_read_again) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/profile.json";
  for (const bool inside : {true, false}) {
    CollectiveProfile written = profile();
    if (!inside) written.inside.reset();
    io::write_collective_profile(path, written);
    const CollectiveProfile read = io::read_collective_profile(path);
    EXPECT_EQ(hash_of(read), hash_of(written));
    EXPECT_EQ(read.inside.has_value(), inside);
    EXPECT_EQ(read.between->contention, 1.25);
    EXPECT_EQ(read.nodes, 4);
    EXPECT_EQ(io::to_text(read), io::read_text(path));
  }
}

TEST(SchemaCollectiveProfile, what_is_wrong_is_named) {
  const std::string good = io::to_text(profile());
  struct Case {
    std::string text;
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {"", {"is not JSON"}},
      {"[]", {"JSON object"}},
      {replaced(good, "matrixfsdp collective profile", "other"), {"format", "other", "matrixfsdp collective profile"}},
      {replaced(good, "\"format_version\": 2", "\"format_version\": 1"), {"format_version", "1", "expected 2"}},
      {replaced(good, "\"world_size\": 8", "\"world_size\": 0"), {"world_size", "0", "from 1"}},
      {replaced(good, "\"nodes\": 4", "\"nodes\": 9"), {"nodes", "9", "to 8"}},
      {replaced(good, "\"contention\": 1.25", "\"contention\": 0"), {"between.contention", "0", "above 0"}},
      {replaced(good, "\"contention\": 1.25", "\"contention\": \"1\""), {"between.contention", "a number"}},
      {replaced(good, "\"factor\": 2.5", "\"factor\": -2.5"), {"corrections.factor", "-2.5", "above 0"}},
      {replaced(good, "\"reduce\"", "\"sum\""), {"corrections[1].operation", "sum", "unshard or reduce"}},
      {replaced(good, "\"chain\"", "\"ring\""), {"corrections[0].algorithm", "ring"}},
      {replaced(good, "\"bytes\": 65536", "\"bytes\": 0"), {"corrections[0].bytes", "0", "from 1"}},
      {replaced(good, "2e-06", "-2e-06"), {"between.alpha_seconds", "-2e-06", "0 or more"}},
      {replaced(good, "\"alpha_seconds\"", "\"alpha\""), {"inside.alpha_seconds", "missing"}},
      {replaced(good, "\"nodes\": 4", "\"nodes\": 4, \"extra\": 1"), {"extra", "unknown"}},
      {replaced(good, "\"inside\": {", "\"inside\": {\"gamma\": 1, "), {"inside.gamma", "unknown"}},
  };
  for (const Case& bad : cases) {
    const std::string message =
        test::message_of<IoError>([&] { io::parse_collective_profile(bad.text, "profile.json"); });
    EXPECT_NE(message.find("'profile.json'"), std::string::npos) << message;
    for (const std::string& word : bad.said)
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
  }
}

TEST(SchemaCollectiveProfile, figures_that_make_no_sense_are_not_written) {
  CollectiveProfile bad = profile();
  bad.between->beta_seconds_per_byte = -1;
  EXPECT_THROW(io::to_text(bad), InputError);
  EXPECT_THROW(io::read_collective_profile("/no/such/file"), IoError);
}

}  // namespace
}  // namespace matrixfsdp

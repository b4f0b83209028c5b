#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/program.hpp"

/// --tensorboard, read by a reader of its own: framing, checksums, messages.
namespace matrixfsdp {
namespace {

using testing::fresh_folder;
using testing::read_file;
using testing::run_train;
using testing::sample_text;
using testing::write_file;

/// Bit by bit, by the definition.
std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = (((crc ^ (static_cast<unsigned char>(c) >> bit)) & 1U) != 0);
      crc = (crc >> 1) ^ (one ? 0x82f63b78U : 0U);
    }
  }
  return ~crc;
}

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

bool is_masked_crc(std::string_view stored, std::string_view of) {
  const auto masked = static_cast<std::uint32_t>(little_endian(stored));
  const std::uint32_t rotated = masked - 0xa282ead8U;
  return ((rotated >> 17) | (rotated << 15)) == crc32c(of);
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  std::string_view left = file;
  while (!left.empty()) {
    if (left.size() < 16) throw std::runtime_error("a part of a record");
    const std::uint64_t length = little_endian(left.substr(0, 8));
    if (!is_masked_crc(left.substr(8, 4), left.substr(0, 8))) throw std::runtime_error("checksum of a length");
    if (left.size() < 16 + length) throw std::runtime_error("a part of a record's data");
    const std::string_view data = left.substr(12, length);
    if (!is_masked_crc(left.substr(12 + length, 4), data)) throw std::runtime_error("checksum of data");
    records.emplace_back(data);
    left.remove_prefix(16 + length);
  }
  return records;
}

struct Field {
  int number = 0;
  std::uint64_t value = 0;  ///< of numbers: their bits
  std::string bytes;
};

std::uint64_t take_varint(std::string_view& left) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    if (left.empty() || shift > 63) throw std::runtime_error("varint");
    const auto byte = static_cast<unsigned char>(left.front());
    left.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> fields_of(std::string_view message) {
  std::vector<Field> fields;
  while (!message.empty()) {
    const std::uint64_t key = take_varint(message);
    Field field{static_cast<int>(key >> 3), 0, {}};
    const std::uint64_t type = key & 7U;
    if (type == 0) {
      field.value = take_varint(message);
    } else if (type == 1 || type == 5) {
      const std::size_t width = type == 1 ? 8 : 4;
      field.value = little_endian(message.substr(0, width));
      message.remove_prefix(width);
    } else if (type == 2) {
      const std::uint64_t length = take_varint(message);
      if (length > message.size()) throw std::runtime_error("length");
      field.bytes = message.substr(0, length);
      message.remove_prefix(length);
    } else {
      throw std::runtime_error("type of a field");
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

struct Event {
  double wall_time = 0;
  std::uint64_t step = 0;
  std::string version;
  bool start = false;
  std::map<std::string, float> scalars;
};

Event event_of(const std::string& record) {
  Event event;
  for (const Field& field : fields_of(record)) {
    if (field.number == 1) event.wall_time = std::bit_cast<double>(field.value);
    if (field.number == 2) event.step = field.value;
    if (field.number == 3) event.version = field.bytes;
    if (field.number == 7) event.start = fields_of(field.bytes).at(0).value == 1;
    if (field.number != 5) continue;
    for (const Field& value : fields_of(field.bytes)) {
      std::string tag;
      for (const Field& part : fields_of(value.bytes)) {
        if (part.number == 1) tag = part.bytes;
        if (part.number == 2) event.scalars[tag] = std::bit_cast<float>(static_cast<std::uint32_t>(part.value));
      }
    }
  }
  return event;
}

std::vector<Event> events_of(const std::string& path) {
  std::vector<Event> events;
  for (const std::string& record : records_of(read_file(path)))
    events.push_back(event_of(record));
  return events;
}

std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

using Scalars = std::map<std::pair<std::uint64_t, std::string>, float>;

/// What the metrics file says, by step and tag.
Scalars expected_scalars(const std::string& metrics) {
  Scalars expected;
  for (const auto& line : testing::read_json_lines(metrics)) {
    const std::uint64_t step = line["step"];
    const auto set = [&](const std::string& tag, const nlohmann::json& value) {
      expected[{step, tag}] = static_cast<float>(value.get<double>());
    };
    if (line.contains("validation_loss")) set("loss/validation", line["validation_loss"]);
    if (!line.contains("loss")) continue;
    set("loss/train", line["loss"]);
    set("learning_rate", line["lr"]);
    set("gradient_norm", line["grad_norm"]);
    set("tokens_per_second", line["tokens_per_second"]);
    set("peak_bytes", line["peak_bytes"]);
    for (const char* group : {"milliseconds", "bytes"}) {
      for (const auto& [name, value] : line[group].items())
        set(std::string(group) + "/" + name, value);
    }
  }
  return expected;
}

std::vector<std::string> arguments(const std::string& folder, const std::string& steps) {
  return {"--data",           folder + "/text",
          "--layers",         "1",
          "--hidden",         "16",
          "--heads",          "2",
          "--seq-len",        "16",
          "--batch-size",     "6",
          "--steps",          steps,
          "--sample-tokens",  "0",
          "--eval-every",     "2",
          "--metrics",        folder + "/metrics",
          "--tensorboard",    folder + "/events",
          "--checkpoint-dir", folder + "/checkpoints",
          "--resume",         "auto"};
}

TEST(FollowingTensorBoard, the_checksum_of_this_test_is_the_published_one) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU) << "RFC 3720, appendix B.4";
}

TEST(FollowingTensorBoard, every_figure_of_the_metrics_is_there_and_a_resumed_run_goes_on_in_a_new_file) {
  const std::string folder = fresh_folder("tensorboard");
  write_file(folder + "/text", sample_text(20000));
  ASSERT_EQ(run_train(2, arguments(folder, "4")).exit_code, 0);
  ASSERT_EQ(files_of(folder + "/events").size(), 1U);
  const std::string first = files_of(folder + "/events").front();
  const std::string before = read_file(first);
  ASSERT_EQ(run_train(3, arguments(folder, "6")).exit_code, 0);
  const auto files = files_of(folder + "/events");
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files.front(), first) << "the order of the names is that of the parts";
  EXPECT_EQ(read_file(first), before);

  Scalars found;
  double wall_time = 0;
  for (const std::string& file : files) {
    EXPECT_NE(file.find(".tfevents."), std::string::npos) << file;
    const std::vector<Event> events = events_of(file);
    ASSERT_GT(events.size(), 2U);
    EXPECT_EQ(events[0].version, "brain.Event:2");
    EXPECT_EQ(events[1].start, file != first);
    if (events[1].start) {
      EXPECT_EQ(events[1].step, 5U) << "the first step that is taken again, or anew";
    }
    for (const Event& event : events) {
      EXPECT_GE(event.wall_time, wall_time);
      wall_time = event.wall_time;
      for (const auto& [tag, value] : event.scalars)
        found[{event.step, tag}] = value;
    }
  }
  const Scalars expected = expected_scalars(folder + "/metrics");
  ASSERT_GT(expected.size(), 6U * 12);
  for (const auto& [key, value] : expected) {
    ASSERT_TRUE(found.contains(key)) << "step " << key.first << ", " << key.second;
    EXPECT_EQ(found[key], value) << "step " << key.first << ", " << key.second;
  }
  EXPECT_EQ(found.size(), expected.size());
}

TEST(FollowingTensorBoard, a_folder_that_cannot_be_made_ends_the_run_at_its_start) {
  const std::string folder = fresh_folder("tensorboard-nowhere");
  write_file(folder + "/text", sample_text(20000));
  const auto result = run_train(2, {"--data", folder + "/text", "--steps", "1", "--tensorboard", folder + "/text/in"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(testing::lines_of(result.err).size(), 1U) << result.err;
  EXPECT_NE(result.err.find("--tensorboard '" + folder + "/text/in'"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace matrixfsdp

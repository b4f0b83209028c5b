#include "apps/train/tensorboard.hpp"

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include <fmt/format.h>
#include <unistd.h>

#include <matrixfsdp/core/error.hpp>

#include "apps/train/tfrecord.hpp"

namespace matrixfsdp::train {
namespace {

/// Fields of the messages that are written here.
enum EventField { event_wall_time = 1, event_step = 2, event_file_version = 3, event_summary = 5, event_session = 7 };
enum SummaryField { summary_value = 1 };
enum ValueField { value_tag = 1, value_simple = 2 };
enum SessionField { session_status = 1 };
constexpr std::uint64_t session_start = 1;

/// A protobuf message: fields in the order in which they are added (protobuf's encoding guide).
class Message {
 public:
  Message& varint(int field, std::uint64_t value) {
    key(field, 0);
    append_varint(value);
    return *this;
  }
  Message& fixed64(int field, double value) {
    key(field, 1);
    append_fixed(std::bit_cast<std::uint64_t>(value), 8);
    return *this;
  }
  Message& bytes(int field, std::string_view value) {
    key(field, 2);
    append_varint(value.size());
    text_ += value;
    return *this;
  }
  Message& fixed32(int field, float value) {
    key(field, 5);
    append_fixed(std::bit_cast<std::uint32_t>(value), 4);
    return *this;
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  void key(int field, std::uint64_t type) { append_varint((static_cast<std::uint64_t>(field) << 3) | type); }
  void append_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      text_.push_back(static_cast<char>(value | 0x80));
    text_.push_back(static_cast<char>(value));
  }
  void append_fixed(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      text_.push_back(static_cast<char>(value >> (8 * i)));
  }

  std::string text_;
};

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Message event(std::int64_t step) {
  Message message;
  message.fixed64(event_wall_time, now());
  if (step > 0) message.varint(event_step, static_cast<std::uint64_t>(step));
  return message;
}

/// As TensorBoard expects it: it looks for "tfevents", and reads the files of a folder by name, so that they must sort
/// by age.
std::string new_file_name() {
  std::string host(256, '\0');
  if (::gethostname(host.data(), host.size() - 1) != 0) host = "host";
  return fmt::format("events.out.tfevents.{:010}.{}.{}.0", static_cast<std::int64_t>(now()), host.c_str(), ::getpid());
}

}  // namespace

std::vector<std::pair<std::string, double>> scalars_of(const StepMetrics& metrics) {
  std::vector<std::pair<std::string, double>> scalars{{"loss/train", metrics.loss},
                                                      {"learning_rate", metrics.learning_rate},
                                                      {"gradient_norm", metrics.gradient_norm},
                                                      {"tokens_per_second", metrics.tokens_per_second},
                                                      {"peak_bytes", static_cast<double>(metrics.peak_bytes)}};
  const nlohmann::json line = to_json(metrics);
  for (const char* group : {"milliseconds", "bytes"}) {
    for (const auto& [name, value] : line.at(group).items())
      scalars.emplace_back(fmt::format("{}/{}", group, name), value.get<double>());
  }
  return scalars;
}

TensorBoardFile::TensorBoardFile(const std::string& folder, std::int64_t steps_done)
    : path_(folder + "/" + new_file_name()), file_(nullptr, &std::fclose) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) file_.reset(std::fopen(path_.c_str(), "wxe"));
  if (!file_) {
    throw InputError(fmt::format("--tensorboard '{}': no event file can be made there ({})", folder,
                                 error ? error.message() : std::strerror(errno)));
  }
  write_event(event(0).bytes(event_file_version, "brain.Event:2").text());
  if (steps_done > 0) {
    write_event(
        event(steps_done + 1).bytes(event_session, Message().varint(session_status, session_start).text()).text());
  }
}

void TensorBoardFile::write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  Message summary;
  for (const auto& [tag, value] : scalars) {
    summary.bytes(summary_value,
                  Message().bytes(value_tag, tag).fixed32(value_simple, static_cast<float>(value)).text());
  }
  write_event(event(step).bytes(event_summary, summary.text()).text());
}

void TensorBoardFile::write_event(const std::string& event) {
  const std::string record = tfrecord(event);
  const bool written = std::fwrite(record.data(), 1, record.size(), file_.get()) == record.size();
  if (!written || std::fflush(file_.get()) != 0)
    throw IoError(fmt::format("event file {}: cannot be written ({})", path_, std::strerror(errno)));
}

}  // namespace matrixfsdp::train

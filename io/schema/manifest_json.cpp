#include "io/schema/manifest_json.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>

namespace matrixfsdp::io {
namespace {

/// Follows the parser: no key twice in an object, no nesting so deep that what walks over values recursively runs out
/// of stack, and no object that takes forever.
class Structure {
 public:
  explicit Structure(std::string source) : source_(std::move(source)) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > most_depth) throw IoError(fmt::format("'{}': nested more than {} deep", source_, most_depth));
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && keys_.back().size() == most_keys) {
      throw IoError(fmt::format("'{}': an object of more than {} fields", source_, most_keys));
    }
    if (event == Json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw IoError(fmt::format("'{}': field {} is there twice", source_, parsed.get<std::string>()));
    }
    return true;
  }

 private:
  static constexpr int most_depth = 64;
  static constexpr std::size_t most_keys = 1 << 16;  // an object that keeps its order looks each key up one by one

  std::string source_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open
};

}  // namespace

Json to_json(const std::vector<StoredFile>& files) {
  Json array = Json::array();
  for (const StoredFile& file : files) {
    array.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", checksum_text(file.checksum)}});
  }
  return array;
}

Json to_json(const std::vector<StoredSegment>& segments) {
  Json array = Json::array();
  for (const StoredSegment& segment : segments) {
    Json& written = array.emplace_back();
    written = Json{{"parameter", segment.parameter},
                   {"what", segment.what},
                   {"file", segment.file},
                   {"dataset", segment.dataset},
                   {"begin", segment.elements.begin},
                   {"end", segment.elements.end},
                   {"dtype", std::string(name_of(segment.dtype))},
                   {"optimizer", segment.optimizer.empty() ? Json() : Json(segment.optimizer)},
                   {"bytes", segment.bytes},
                   {"checksum", checksum_text(segment.checksum)}};
    if (segment.shape) written["shape"] = *segment.shape;
  }
  return array;
}

std::vector<StoredFile> read_files(Fields& fields) {
  std::vector<StoredFile> files;
  fields.each("files", [&](const Json& element, const std::string& path) {
    Fields file(element, fields.source(), path);
    files.push_back({file.text("name"), file.integer("bytes", 0), file.checksum("checksum")});
    file.finish();
  });
  return files;
}

std::vector<StoredSegment> read_segments(Fields& fields) {
  std::vector<StoredSegment> segments;
  fields.each("segments", [&](const Json& element, const std::string& path) {
    Fields segment(element, fields.source(), path);
    StoredSegment stored;
    stored.parameter = segment.text("parameter");
    stored.what = segment.text("what");
    stored.file = segment.text("file");
    stored.dataset = segment.text("dataset");
    stored.elements.begin = segment.integer("begin", 0);
    stored.elements.end = segment.integer("end", stored.elements.begin);
    stored.dtype = segment.choice("dtype", parse_dtype);
    if (!segment.is_null("optimizer")) stored.optimizer = segment.text("optimizer");
    stored.bytes = segment.integer("bytes", 0);
    stored.checksum = segment.checksum("checksum");
    if (segment.has("shape")) stored.shape = segment.integers("shape");
    segment.finish();
    segments.push_back(std::move(stored));
  });
  return segments;
}

std::string dump(const Json& value, int indent) {
  try {
    return value.dump(indent);
  } catch (const Json::type_error& error) {
    throw IoError(fmt::format("manifest: cannot be written: {}", error.what()));
  }
}

Json parse_json(const std::string& text, const std::string& source) {
  try {
    return Json::parse(text, Structure(source));
  } catch (const Json::exception& error) {
    throw IoError(fmt::format("'{}': is not JSON: {}", source, error.what()));
  }
}

}  // namespace matrixfsdp::io

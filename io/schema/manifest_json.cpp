#include "io/schema/manifest_json.hpp"

#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>

namespace matrixfsdp::io {

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
    array.push_back({{"parameter", segment.parameter},
                     {"what", segment.what},
                     {"file", segment.file},
                     {"dataset", segment.dataset},
                     {"begin", segment.elements.begin},
                     {"end", segment.elements.end},
                     {"dtype", std::string(name_of(segment.dtype))},
                     {"bytes", segment.bytes},
                     {"checksum", checksum_text(segment.checksum)}});
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
    stored.bytes = segment.integer("bytes", 0);
    stored.checksum = segment.checksum("checksum");
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
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw IoError(fmt::format("'{}': is not JSON: {}", source, error.what()));
  }
}

}  // namespace matrixfsdp::io

#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/schema/manifest.hpp>

#include "io/schema/fields.hpp"

namespace matrixfsdp::io {

/// "files" and "segments", as the manifest and the parts of it have them.
Json to_json(const std::vector<StoredFile>& files);
Json to_json(const std::vector<StoredSegment>& segments);
std::vector<StoredFile> read_files(Fields& fields);
std::vector<StoredSegment> read_segments(Fields& fields);

/// Text of JSON. Throws IoError for text that is not UTF-8 (a name, say). `indent` as nlohmann's: -1 is one line.
std::string dump(const Json& value, int indent);

/// JSON from text, without a key that an object has twice, at most 64 deep, with at most 65,536 keys in an object.
/// Throws IoError with the position of what is wrong.
Json parse_json(const std::string& text, const std::string& source);

}  // namespace matrixfsdp::io

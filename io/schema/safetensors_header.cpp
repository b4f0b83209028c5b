#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

#include "io/schema/manifest_json.hpp"

namespace matrixfsdp::io {
namespace {

constexpr std::int64_t length_bytes = 8;
constexpr const char* metadata_key = "__metadata__";

struct Type {
  std::string_view name;
  std::int64_t bytes;
};
constexpr std::array<Type, 15> types{{{"BOOL", 1},
                                      {"U8", 1},
                                      {"I8", 1},
                                      {"F8_E4M3", 1},
                                      {"F8_E5M2", 1},
                                      {"U16", 2},
                                      {"I16", 2},
                                      {"F16", 2},
                                      {"BF16", 2},
                                      {"U32", 4},
                                      {"I32", 4},
                                      {"F32", 4},
                                      {"U64", 8},
                                      {"I64", 8},
                                      {"F64", 8}}};

/// The integers of an array of 0 or more.
std::vector<std::int64_t> integers(Fields& fields, const char* key) {
  std::vector<std::int64_t> values;
  fields.each(key, [&](const Json& element, const std::string& at) {
    const bool fits = element.is_number_unsigned() && element.get<std::uint64_t>() <= std::uint64_t{1} << 62;
    if (!fits) fields.fail(at, "no such number", "an integer from 0 to 2^62");
    values.push_back(element.get<std::int64_t>());
  });
  return values;
}

SafetensorsEntry read_entry(const std::string& name, const Json& value, const std::string& source) {
  Fields fields(value, source, name);
  SafetensorsEntry entry;
  entry.name = name;
  entry.dtype = fields.text("dtype");
  const std::int64_t width =
      fields.choice("dtype", [](const std::string& dtype) { return safetensors_size_of(dtype); });
  entry.shape = integers(fields, "shape");
  const auto offsets = integers(fields, "data_offsets");
  fields.finish();
  if (offsets.size() != 2 || offsets[0] > offsets[1]) {
    fields.fail(fields.path_of("data_offsets"), to_string(offsets), "where the tensor begins and ends");
  }
  entry.bytes = {offsets[0], offsets[1]};
  std::int64_t elements = 0;
  try {
    elements = element_count(entry.shape);
  } catch (const ContractError& error) {
    fields.fail(fields.path_of("shape"), to_string(entry.shape), "a product of at most 2^62");
  }
  if (elements > std::numeric_limits<std::int64_t>::max() / width || elements * width != entry.bytes.size()) {
    fields.fail(fields.path_of("data_offsets"), to_string(offsets),
                fmt::format("the bytes of {} elements of {}", elements, entry.dtype));
  }
  return entry;
}

std::map<std::string, std::string> read_metadata(const Json& value, const std::string& source) {
  const Fields fields(value, source, metadata_key);
  std::map<std::string, std::string> metadata;
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) fields.fail(fields.path_of(key), "not text", "text");
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

/// One after another, from the first byte of the data to the last.
void check_places(std::vector<SafetensorsEntry>& tensors, std::int64_t data_bytes, const std::string& source) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.bytes.begin, a.bytes.end) < std::pair(b.bytes.begin, b.bytes.end);
  });
  std::int64_t next = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.bytes.begin != next) {
      throw IoError(
          fmt::format("'{}': tensor '{}' begins at byte {} of the data; expected {}, where the one before ends", source,
                      tensor.name, tensor.bytes.begin, next));
    }
    next = tensor.bytes.end;
  }
  if (next != data_bytes) {
    throw IoError(fmt::format("'{}': its tensors end at byte {} of the data; expected {}", source, next, data_bytes));
  }
}

std::int64_t header_bytes(std::span<const std::byte> start, std::int64_t file_bytes, const std::string& source) {
  if (file_bytes < length_bytes || start.size() < length_bytes) {
    throw IoError(
        fmt::format("'{}': {} bytes; expected at least {}, the length of a header", source, file_bytes, length_bytes));
  }
  static_assert(std::endian::native == std::endian::little, "the length is little-endian");
  std::uint64_t length = 0;
  std::memcpy(&length, start.data(), sizeof length);
  const auto most = static_cast<std::uint64_t>(std::min(safetensors_most_header_bytes, file_bytes - length_bytes));
  if (length > most) {
    throw IoError(fmt::format("'{}': a header of {} bytes; expected at most {}", source, length, most));
  }
  return static_cast<std::int64_t>(length);
}

}  // namespace

std::int64_t safetensors_size_of(std::string_view dtype) {
  const auto* const found =
      std::find_if(types.begin(), types.end(), [&](const Type& type) { return type.name == dtype; });
  if (found == types.end()) throw InputError(fmt::format("dtype '{}': expected one of this format's", dtype));
  return found->bytes;
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> start, std::int64_t file_bytes,
                                    const std::string& source) {
  const std::int64_t length = header_bytes(start, file_bytes, source);
  const std::int64_t data_offset = length_bytes + length;
  if (static_cast<std::int64_t>(start.size()) < data_offset) {
    throw ContractError(fmt::format("safetensors: {} bytes of a header that ends at {}", start.size(), data_offset));
  }
  const std::string text(reinterpret_cast<const char*>(start.data()) + length_bytes, static_cast<std::size_t>(length));
  if (!text.starts_with('{')) throw IoError(fmt::format("'{}': its header does not begin with '{{'", source));
  const Json value = parse_json(text, source);
  const Fields fields(value, source, "");
  SafetensorsHeader header;
  header.data_offset = data_offset;
  for (const auto& [name, content] : value.items()) {
    if (name == metadata_key) {
      header.metadata = read_metadata(content, source);
    } else {
      header.tensors.push_back(read_entry(name, content, source));
    }
  }
  check_places(header.tensors, file_bytes - data_offset, source);
  return header;
}

}  // namespace matrixfsdp::io

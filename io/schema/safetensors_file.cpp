#include <algorithm>
#include <cstdio>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

#include "io/schema/descriptor.hpp"
#include "io/schema/manifest_json.hpp"

namespace matrixfsdp::io {
namespace {

/// The first bytes of the file: length and header. A length that cannot be is left to parse_safetensors.
std::vector<std::byte> read_start(const Descriptor& file, std::int64_t size) {
  std::vector<std::byte> start(static_cast<std::size_t>(std::min<std::int64_t>(size, 8)));
  file.read_at(0, start.data(), start.size());
  if (start.size() < 8) return start;
  std::uint64_t length = 0;
  std::copy_n(start.data(), sizeof length, reinterpret_cast<std::byte*>(&length));
  if (length > static_cast<std::uint64_t>(std::min(safetensors_most_header_bytes, size - 8))) return start;
  start.resize(8 + static_cast<std::size_t>(length));
  file.read_at(8, start.data() + 8, static_cast<std::size_t>(length));
  return start;
}

std::string header_text(const std::vector<SafetensorsEntry>& tensors,
                        const std::map<std::string, std::string>& metadata) {
  Json value = Json::object();
  if (!metadata.empty()) value["__metadata__"] = metadata;
  for (const SafetensorsEntry& tensor : tensors) {
    value[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {tensor.bytes.begin, tensor.bytes.end}}};
  }
  std::string text = dump(value, -1);
  text.append((8 - text.size() % 8) % 8, ' ');  // so that the data are aligned
  return text;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

struct SafetensorsReader::Implementation {
  explicit Implementation(std::string name) : path(std::move(name)), file(path, O_RDONLY) {}

  std::string path;
  Descriptor file;
  SafetensorsHeader header;
};

SafetensorsReader::SafetensorsReader(std::string path)
    : implementation_(std::make_unique<Implementation>(std::move(path))) {
  const std::int64_t size = implementation_->file.size();
  implementation_->header = parse_safetensors(read_start(implementation_->file, size), size, implementation_->path);
}

SafetensorsReader::~SafetensorsReader() = default;
SafetensorsReader::SafetensorsReader(SafetensorsReader&&) noexcept = default;
SafetensorsReader& SafetensorsReader::operator=(SafetensorsReader&&) noexcept = default;

const std::string& SafetensorsReader::path() const {
  return implementation_->path;
}

const SafetensorsHeader& SafetensorsReader::header() const {
  return implementation_->header;
}

void SafetensorsReader::read(
    const SafetensorsEntry& entry,
    const std::function<void(std::int64_t first, std::span<const std::byte> values)>& sink) const {
  constexpr std::int64_t block_bytes = 1 << 20;  // a multiple of every element
  const std::int64_t width = safetensors_size_of(entry.dtype);
  std::vector<std::byte> block(static_cast<std::size_t>(std::min(block_bytes, entry.bytes.size())));
  for (std::int64_t done = 0; done < entry.bytes.size(); done += block_bytes) {
    const auto count = static_cast<std::size_t>(std::min(block_bytes, entry.bytes.size() - done));
    implementation_->file.read_at(implementation_->header.data_offset + entry.bytes.begin + done, block.data(), count);
    sink(done / width, std::span(block).first(count));
  }
}

struct SafetensorsWriter::Implementation {
  Implementation(std::string name, std::int64_t bytes)
      : path(std::move(name)), temporary(path + ".tmp"), file(temporary, O_WRONLY | O_CREAT | O_EXCL), missing(bytes) {}
  ~Implementation() {
    if (!complete) std::remove(temporary.c_str());
  }
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;

  std::string path;
  std::string temporary;
  Descriptor file;
  std::int64_t missing;  // bytes of data
  bool complete = false;
};

SafetensorsWriter::SafetensorsWriter(std::string path, std::vector<SafetensorsEntry> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  if (std::filesystem::exists(path)) {
    throw InputError(fmt::format("'{}': exists; expected a new file, nothing is overwritten", path));
  }
  std::int64_t end = 0;
  for (SafetensorsEntry& tensor : tensors) {
    tensor.bytes.begin = end;
    end += element_count(tensor.shape) * safetensors_size_of(tensor.dtype);
    tensor.bytes.end = end;
  }
  const std::string text = header_text(tensors, metadata);
  implementation_ = std::make_unique<Implementation>(std::move(path), end);
  const std::uint64_t length = text.size();
  implementation_->file.write(as_text(std::as_bytes(std::span(&length, 1))));
  implementation_->file.write(text);
}

SafetensorsWriter::~SafetensorsWriter() = default;

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
  implementation_->file.write(as_text(bytes));
  implementation_->missing -= static_cast<std::int64_t>(bytes.size());
}

void SafetensorsWriter::close() {
  if (implementation_->missing != 0) {
    throw ContractError(
        fmt::format("'{}': {} bytes of data have not come", implementation_->path, implementation_->missing));
  }
  implementation_->file.flush();
  implementation_->file.close();
  put_in_place(implementation_->temporary, implementation_->path);
  implementation_->complete = true;
}

}  // namespace matrixfsdp::io

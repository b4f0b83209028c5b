#include <cstdio>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/files.hpp>

#include "io/schema/descriptor.hpp"

namespace matrixfsdp::io {
namespace {

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

StoredFile describe_file(const std::string& folder, const std::string& name) {
  const Descriptor file(folder + "/" + name, O_RDONLY);
  std::vector<std::byte> block(1 << 20);
  Checksum checksum;
  std::int64_t bytes = 0;
  while (const std::size_t count = file.read(block.data(), block.size())) {
    checksum.update({block.data(), count});
    bytes += static_cast<std::int64_t>(count);
  }
  return {name, bytes, checksum.digest()};
}

void verify_file(const std::string& folder, const StoredFile& file) {
  const std::string path = folder + "/" + file.name;
  const std::int64_t bytes = Descriptor(path, O_RDONLY).size();
  if (bytes != file.bytes) {
    throw IoError(fmt::format("'{}': {} bytes; the manifest says {}", path, bytes, file.bytes));
  }
  const std::uint64_t checksum = describe_file(folder, file.name).checksum;
  if (checksum != file.checksum) {
    throw IoError(fmt::format("'{}': is damaged: checksum {}; the manifest says {}", path, checksum_text(checksum),
                              checksum_text(file.checksum)));
  }
}

std::string read_text(const std::string& path, std::int64_t most_bytes) {
  const Descriptor file(path, O_RDONLY);
  const std::int64_t size = file.size();
  if (size > most_bytes) throw IoError(fmt::format("'{}': {} bytes; expected at most {}", path, size, most_bytes));
  std::string text(static_cast<std::size_t>(size), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const std::size_t count = file.read(text.data() + done, text.size() - done);
    if (count == 0) throw IoError(fmt::format("'{}': ended after {} of {} bytes", path, done, text.size()));
    done += count;
  }
  return text;
}

void write_text_durably(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  Descriptor file(temporary, O_WRONLY | O_CREAT | O_TRUNC);
  file.write(text);
  file.flush();
  file.close();
  put_in_place(temporary, path);
}

void put_in_place(const std::string& temporary, const std::string& path) {
  if (std::rename(temporary.c_str(), path.c_str()) != 0) throw_system_error(path, "cannot be put in place");
  flush_to_disk(parent_of(path));
}

void create_file(const std::string& path) {
  Descriptor file(path, O_WRONLY | O_CREAT | O_EXCL);
  file.write(std::string(4096, '\0'));
  file.flush();
  file.close();
}

void flush_to_disk(const std::string& path) {
  Descriptor file(path, O_RDONLY);
  file.flush();
}

}  // namespace matrixfsdp::io

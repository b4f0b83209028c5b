#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/files.hpp>

namespace matrixfsdp::io {
namespace {

[[noreturn]] void fail(const std::string& path, const char* operation) {
  throw IoError(fmt::format("'{}': {}: {}", path, operation, std::strerror(errno)));
}

/// An open file. close() is checked where bytes were written; the destructor is for the other ways out.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags) : path_(path), value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (value_ < 0) fail(path, "cannot be opened");
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  [[nodiscard]] std::int64_t size() const {
    struct stat status {};
    if (::fstat(value_, &status) != 0) fail(path_, "cannot be examined");
    if (!S_ISREG(status.st_mode)) throw IoError(fmt::format("'{}': is not a regular file", path_));
    return status.st_size;
  }

  /// Up to `size` bytes; 0 at the end.
  std::size_t read(void* bytes, std::size_t size) const {
    for (;;) {
      const ::ssize_t count = ::read(value_, bytes, size);
      if (count >= 0) return static_cast<std::size_t>(count);
      if (errno != EINTR) fail(path_, "cannot be read");
    }
  }

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ::ssize_t count = ::write(value_, text.data(), text.size());
      if (count < 0 && errno != EINTR) fail(path_, "cannot be written");
      if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
    }
  }

  void flush() const {
    if (::fsync(value_) != 0) fail(path_, "cannot be flushed to disk");
  }

  void close() {
    const int result = ::close(value_);
    value_ = -1;
    if (result != 0) fail(path_, "cannot be closed");
  }

 private:
  std::string path_;
  int value_;
};

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

std::string read_text(const std::string& path) {
  const Descriptor file(path, O_RDONLY);
  std::string text(static_cast<std::size_t>(file.size()), '\0');
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
  if (std::rename(temporary.c_str(), path.c_str()) != 0) fail(path, "cannot be put in place");
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

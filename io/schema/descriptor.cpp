#include "io/schema/descriptor.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {

void throw_system_error(const std::string& path, const char* operation) {
  throw IoError(fmt::format("'{}': {}: {}", path, operation, std::strerror(errno)));
}

Descriptor::Descriptor(const std::string& path, int flags)
    : path_(path), value_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
  if (value_ < 0) throw_system_error(path, "cannot be opened");
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

std::int64_t Descriptor::size() const {
  struct stat status {};
  if (::fstat(value_, &status) != 0) throw_system_error(path_, "cannot be examined");
  if (!S_ISREG(status.st_mode)) throw IoError(fmt::format("'{}': is not a regular file", path_));
  return status.st_size;
}

std::size_t Descriptor::read(void* bytes, std::size_t size) const {
  for (;;) {
    const ::ssize_t count = ::read(value_, bytes, size);
    if (count >= 0) return static_cast<std::size_t>(count);
    if (errno != EINTR) throw_system_error(path_, "cannot be read");
  }
}

void Descriptor::read_at(std::int64_t offset, void* bytes, std::size_t size) const {
  auto* target = static_cast<char*>(bytes);
  while (size > 0) {
    const ::ssize_t count = ::pread(value_, target, size, offset);
    if (count < 0 && errno != EINTR) throw_system_error(path_, "cannot be read");
    if (count == 0) throw IoError(fmt::format("'{}': ended at byte {}; expected {} more", path_, offset, size));
    if (count < 0) continue;
    target += count;
    offset += count;
    size -= static_cast<std::size_t>(count);
  }
}

void Descriptor::write(std::string_view text) const {
  while (!text.empty()) {
    const ::ssize_t count = ::write(value_, text.data(), text.size());
    if (count < 0 && errno != EINTR) throw_system_error(path_, "cannot be written");
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void Descriptor::flush() const {
  if (::fsync(value_) != 0) throw_system_error(path_, "cannot be flushed to disk");
}

void Descriptor::close() {
  const int result = ::close(value_);
  value_ = -1;
  if (result != 0) throw_system_error(path_, "cannot be closed");
}

}  // namespace matrixfsdp::io

#include "io/dataset/mapped_file.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {
namespace {

[[noreturn]] void fail(const std::string& path, const char* operation) {
  throw InputError(fmt::format("data file '{}': {}: {}", path, operation, std::strerror(errno)));
}

struct Descriptor {
  explicit Descriptor(const std::string& path) : value(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value;
};

}  // namespace

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const Descriptor file(path_);
  if (file.value < 0) fail(path_, "cannot be opened");
  struct stat status {};
  if (::fstat(file.value, &status) != 0) fail(path_, "cannot be examined");
  if (!S_ISREG(status.st_mode)) {
    throw InputError(fmt::format("data file '{}': is not a regular file; expected text or a .bin token shard", path_));
  }
  if (status.st_size == 0) throw InputError(fmt::format("data file '{}': is empty; expected tokens", path_));
  size_ = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.value, 0);
  if (address == MAP_FAILED) fail(path_, "cannot be mapped");
  data_ = static_cast<const std::uint8_t*>(address);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace matrixfsdp::io

#include "support/full_disk.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <string_view>

#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

namespace matrixfsdp::testing {
namespace {

// The system's functions have no argument for it.
std::string full_part;
std::int64_t room = -1;  // no fault while negative

bool has_no_room(int file, std::size_t count, off_t offset) {
  if (room < 0 || offset + static_cast<std::int64_t>(count) <= room) return false;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 &&
         std::string_view(path.data(), static_cast<std::size_t>(length)).find(full_part) != std::string_view::npos;
}

/// A real function of the system.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

ssize_t write_or_fail(const char* function, int file, const void* data, std::size_t count, off_t offset) {
  if (has_no_room(file, count, offset)) {
    errno = ENOSPC;
    return -1;
  }
  return next<ssize_t(int, const void*, std::size_t, off_t)>(function)(file, data, count, offset);
}

}  // namespace

FullDisk::FullDisk(const std::string& part, std::int64_t bytes) {
  full_part = part;
  room = bytes;
}

FullDisk::~FullDisk() {
  room = -1;
}

}  // namespace matrixfsdp::testing

extern "C" {

ssize_t write(int file, const void* data, std::size_t count) {
  using namespace matrixfsdp::testing;
  if (room >= 0 && has_no_room(file, count, std::max<off_t>(0, ::lseek(file, 0, SEEK_CUR)))) {
    errno = ENOSPC;
    return -1;
  }
  return next<ssize_t(int, const void*, std::size_t)>("write")(file, data, count);
}

ssize_t pwrite(int file, const void* data, std::size_t count, off_t offset) {
  return matrixfsdp::testing::write_or_fail("pwrite", file, data, count, offset);
}

ssize_t pwrite64(int file, const void* data, std::size_t count, off_t offset) {
  return matrixfsdp::testing::write_or_fail("pwrite64", file, data, count, offset);
}
}

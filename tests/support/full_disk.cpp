#include "support/full_disk.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <string_view>
#include <thread>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace matrixfsdp::testing {
namespace {

// The system's functions have no argument for it.
std::string full_part;
std::atomic<std::int64_t> room{-1};  // no fault while negative
std::string slow_part;
std::atomic<int> delay{0};  // milliseconds
std::string read_only_part;
std::atomic<bool> read_only{false};

bool has(std::string_view path, std::string_view part) {
  return path.find(part) != std::string_view::npos;
}

std::string path_of(int file) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

bool has_no_room(int file, std::size_t count, off_t offset) {
  return room >= 0 && offset + static_cast<std::int64_t>(count) > room && has(path_of(file), full_part);
}

void take_time(int file) {
  if (delay > 0 && has(path_of(file), slow_part)) std::this_thread::sleep_for(std::chrono::milliseconds(delay));
}

bool refuses(const char* path, int flags) {
  return read_only && (flags & O_CREAT) != 0 && has(path, read_only_part);
}

/// A real function of the system.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int open_or_fail(const char* function, const char* path, int flags, mode_t mode) {
  if (refuses(path, flags)) {
    errno = EROFS;
    return -1;
  }
  return next<int(const char*, int, ...)>(function)(path, flags, mode);
}

ssize_t write_or_fail(const char* function, int file, const void* data, std::size_t count, off_t offset) {
  take_time(file);
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

SlowDisk::SlowDisk(const std::string& part, int milliseconds) {
  slow_part = part;
  delay = milliseconds;
}

SlowDisk::~SlowDisk() {
  delay = 0;
}

ReadOnlyFolder::ReadOnlyFolder(const std::string& part) {
  read_only_part = part;
  read_only = true;
}

ReadOnlyFolder::~ReadOnlyFolder() {
  read_only = false;
}

}  // namespace matrixfsdp::testing

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0);
  va_end(arguments);
  return matrixfsdp::testing::open_or_fail("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0);
  va_end(arguments);
  return matrixfsdp::testing::open_or_fail("open64", path, flags, mode);
}

ssize_t write(int file, const void* data, std::size_t count) {
  using namespace matrixfsdp::testing;
  take_time(file);
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

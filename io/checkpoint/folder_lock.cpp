#include "io/checkpoint/folder_lock.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>

namespace matrixfsdp::io {
namespace {

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '?';
  return fmt::format("process {} on {}", ::getpid(), host.data());
}

std::string holder(int file) {
  std::array<char, 512> text{};
  const ::ssize_t count = ::pread(file, text.data(), text.size(), 0);
  return count > 0 ? std::string(text.data(), static_cast<std::size_t>(count)) : "a process without a name";
}

}  // namespace

FolderLock::FolderLock(const std::string& folder) {
  if (std::filesystem::exists(folder) && !std::filesystem::is_directory(folder))
    throw InputError(fmt::format("'{}': is not a folder of checkpoints", folder));
  std::filesystem::create_directories(folder);
  const std::string path = folder + "/.lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0) throw IoError(fmt::format("'{}': cannot be opened: {}", path, std::strerror(errno)));
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    const std::string other = error == EWOULDBLOCK ? holder(file_) : "";
    if (error == EWOULDBLOCK) {
      ::close(file_);
      throw InputError(fmt::format("'{}': another job saves into it ({}); expected a folder of its own for each job",
                                   folder, other));
    }
    log_line(fmt::format("warning: '{}' cannot be locked ({}): nothing keeps another job from saving into it", path,
                         std::strerror(error)));
    return;
  }
  // For the message of the job that is refused; the lock holds without it, on a full disk too.
  const std::string text = this_process();
  if (::ftruncate(file_, 0) == 0) (void)!::pwrite(file_, text.data(), text.size(), 0);
}

FolderLock::~FolderLock() {
  ::close(file_);
}

}  // namespace matrixfsdp::io

#include "support/nccl_double/job.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace matrixfsdp::nccl_double {
namespace {

struct Address {
  std::uint64_t token;
  std::int64_t process;
  std::int64_t file;
};
static_assert(sizeof(Address) <= sizeof(ncclUniqueId));

std::shared_ptr<Job> map(int file) {
  void* memory = mmap(nullptr, sizeof(Job), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<Job*>(memory), [](Job* job) { munmap(job, sizeof(Job)); }};
}

}  // namespace

std::uint64_t Ring::put(const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t at = written.load() % ring_bytes;
  const std::uint64_t count = std::min({bytes, room(), ring_bytes - at});
  std::memcpy(data.data() + at, from, count);
  written += count;
  return count;
}

std::uint64_t Ring::take(std::byte* to, std::uint64_t bytes) {
  const std::uint64_t at = read.load() % ring_bytes;
  const std::uint64_t count = std::min({bytes, filled(), ring_bytes - at});
  std::memcpy(to, data.data() + at, count);
  read += count;
  return count;
}

bool Job::all(int size, Membership state) const {
  return std::all_of(members.begin(), members.begin() + size,
                     [&](const Member& member) { return member.state.load() >= state; });
}

bool Job::any_aborted(int size) const {
  return std::any_of(members.begin(), members.begin() + size,
                     [](const Member& member) { return member.state.load() == Membership::aborted; });
}

void Job::close_file() const {
  if (process == getpid()) close(static_cast<int>(file));
}

bool make_job(ncclUniqueId& id) {
  const int file = memfd_create("nccl_double", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Job)) != 0) return false;
  const std::shared_ptr<Job> job = map(file);  // zeros: nobody has joined, and all rings are empty
  if (!job) return false;
  job->token = (std::uint64_t{std::random_device()()} << 32) | std::random_device()();
  job->process = getpid();
  job->file = file;
  const Address address{job->token, job->process, file};
  std::memcpy(id.internal, &address, sizeof(address));
  return true;
}

std::shared_ptr<Job> open_job(const ncclUniqueId& id) {
  Address address{};
  std::memcpy(&address, id.internal, sizeof(address));
  const std::string path = "/proc/" + std::to_string(address.process) + "/fd/" + std::to_string(address.file);
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  struct stat status {};
  std::shared_ptr<Job> job;
  if (fstat(file, &status) == 0 && status.st_size == sizeof(Job)) job = map(file);
  close(file);
  if (!job || job->token != address.token) return nullptr;
  return job;
}

}  // namespace matrixfsdp::nccl_double

// Preloaded into a program: ends it, or stops it so that others can end it, where its N-th call of a kind on a file of
// a checkpoint says that a save has come so far. Driven by tests/tools/crash_saves.sh:
//   SAVE_POINT       before-file, mid-write, after-data, manifest-written, manifest-named, before-rename, after-rename,
//                    after-exchange, before-latest, before-prune, mid-prune; none: nothing happens
//   SAVE_POINT_N     at the N-th such call
//   SAVE_POINT_RANK  in this rank
//   SAVE_POINT_WAY   kill: SIGKILL; stop: SIGSTOP, after a file "reached" in the folder
//   SAVE_POINT_NOTES folder where each rank leaves its process id
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

namespace {

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string my_rank() {
  const std::string rank = setting("PMI_RANK");
  return rank.empty() ? setting("OMPI_COMM_WORLD_RANK") : rank;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

void leave_note(const std::string& name) {
  std::FILE* file = std::fopen((setting("SAVE_POINT_NOTES") + "/" + name).c_str(), "w");
  if (file == nullptr) return;
  std::fprintf(file, "%d\n", static_cast<int>(::getpid()));
  std::fclose(file);
}

/// The system's functions have no argument for it.
struct Plan {
  std::string point = setting("SAVE_POINT");
  std::string way = setting("SAVE_POINT_WAY");
  bool here = !my_rank().empty() && my_rank() == setting("SAVE_POINT_RANK");
  std::atomic<int> left{std::atoi(setting("SAVE_POINT_N").c_str())};

  Plan() {
    if (!setting("SAVE_POINT_NOTES").empty() && !my_rank().empty()) leave_note("pid." + my_rank());
  }
};

Plan& plan() {
  static Plan instance;
  return instance;
}
[[maybe_unused]] const bool started = (plan(), true);

bool wanted(std::string_view point) {
  return plan().here && plan().point == point;
}

void reach(std::string_view point) {
  if (!wanted(point) || --plan().left != 0) return;
  const bool stops = plan().way == "stop";
  if (stops) leave_note("reached");
  ::kill(::getpid(), stops ? SIGSTOP : SIGKILL);
  for (;;)
    ::pause();  // another thread may take the signal first: this one goes no further
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool is_tensor_file(std::string_view path) {
  return has(path, ".saving-") && has(path, "/rank_");
}

std::string path_of(int file) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(file);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length > 0 ? std::string(path.data(), static_cast<std::size_t>(length)) : std::string();
}

int opened(const char* function, const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) != 0 && is_tensor_file(path)) reach("before-file");
  return next<int(const char*, int, ...)>(function)(path, flags, mode);
}

ssize_t written(const char* function, int file, const void* data, std::size_t count, off_t offset) {
  const auto real = next<ssize_t(int, const void*, std::size_t, off_t)>(function);
  if (!wanted("mid-write") || count < 2 || !is_tensor_file(path_of(file))) return real(file, data, count, offset);
  const ssize_t half = real(file, data, count / 2, offset);
  reach("mid-write");
  return half;
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0);
  va_end(arguments);
  return opened("open", path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>((flags & O_CREAT) != 0 ? va_arg(arguments, unsigned) : 0);
  va_end(arguments);
  return opened("open64", path, flags, mode);
}

ssize_t pwrite(int file, const void* data, std::size_t count, off_t offset) {
  return written("pwrite", file, data, count, offset);
}

ssize_t pwrite64(int file, const void* data, std::size_t count, off_t offset) {
  return written("pwrite64", file, data, count, offset);
}

int fsync(int file) {
  const int result = next<int(int)>("fsync")(file);
  if (wanted("after-data") && is_tensor_file(path_of(file))) reach("after-data");
  return result;
}

int rename(const char* from, const char* to) {
  const bool manifest = has(from, "manifest.json.tmp");
  const bool publishes = has(from, ".saving-") && has(to, "/step_") && !has(to, ".saving-") && !manifest;
  const bool latest = has(from, "/latest.tmp");
  if (manifest) reach("manifest-written");
  if (publishes) reach("before-rename");
  if (latest) reach("before-latest");
  const int result = next<int(const char*, const char*)>("rename")(from, to);
  if (manifest) reach("manifest-named");
  if (publishes) reach("after-rename");
  if (latest) reach("before-prune");
  return result;
}

int renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  const int result =
      next<int(int, const char*, int, const char*, unsigned)>("renameat2")(from_folder, from, to_folder, to, flags);
  reach("after-exchange");
  return result;
}

int unlinkat(int folder, const char* path, int flags) {
  const int result = next<int(int, const char*, int)>("unlinkat")(folder, path, flags);
  if (wanted("mid-prune") && (has(path_of(folder), ".saving-") || has(path, ".saving-"))) reach("mid-prune");
  return result;
}
}

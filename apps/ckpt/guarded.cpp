#include "apps/ckpt/guarded.hpp"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__linux__)
#include <csignal>

#include <sys/prctl.h>
#endif

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>

#include "apps/ckpt/command_line.hpp"

namespace matrixfsdp::ckpt {
namespace {

/// No core file of a crash that is expected, and no life after the parent's.
void limit_child(pid_t parent) {
  const rlimit none{0, 0};
  ::setrlimit(RLIMIT_CORE, &none);
#if defined(__linux__)
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
  if (::getppid() != parent) std::_Exit(exit_error);
}

}  // namespace

int run_guarded(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw IoError(fmt::format("no process to read in: {}", std::strerror(errno)));
  if (child == 0) {
    limit_child(parent);
    std::exit(body());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw IoError(fmt::format("the process that reads was lost: {}", std::strerror(errno)));
  }
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  log_line(fmt::format("ended by signal {} ({}): a file of the checkpoint is malformed, or someone ended the program",
                       WTERMSIG(status), ::strsignal(WTERMSIG(status))));
  return exit_error;
}

}  // namespace matrixfsdp::ckpt

#pragma once

#include <cerrno>
#include <stdexcept>
#include <string>
#include <vector>

#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace matrixfsdp::testing {

struct TerminalResult {
  int exit_code = -1;  ///< 128 + signal where one ended it
  std::string shown;   ///< everything that the terminal was sent
};

/// Runs `command` with a terminal of `columns` columns as its input and output, killed when it says nothing for
/// `seconds`.
inline TerminalResult run_in_terminal(std::vector<std::string> command, unsigned short columns, int seconds = 60) {
  std::vector<char*> words;
  for (std::string& word : command)
    words.push_back(word.data());
  words.push_back(nullptr);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = columns;
  int terminal = -1;
  const pid_t child = ::forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("forkpty");
  if (child == 0) {
    ::execvp(words[0], words.data());
    ::_exit(127);
  }
  TerminalResult result;
  char buffer[4096];
  pollfd readable{terminal, POLLIN, 0};
  while (true) {
    const int ready = ::poll(&readable, 1, 1000 * seconds);
    if (ready == 0) ::kill(child, SIGKILL);
    if (ready < 0 && errno == EINTR) continue;
    const ssize_t count = ready > 0 ? ::read(terminal, buffer, sizeof(buffer)) : 0;
    if (count <= 0) break;  // EIO: the other end is closed
    result.shown.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(terminal);
  int status = 0;
  ::waitpid(child, &status, 0);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace matrixfsdp::testing

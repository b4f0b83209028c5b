#include <exception>

#include <fmt/format.h>

#include <matrixfsdp/core/log.hpp>

#include "apps/tokenize/command_line.hpp"
#include "apps/tokenize/tokenize.hpp"

int main(int argc, char** argv) {
  using namespace matrixfsdp;
  try {
    const tokenize::Command command = tokenize::parse_command(argc, argv);
    fmt::print("{}", command.text_and_exit.empty() ? tokenize::tokenize(command) : command.text_and_exit);
    return 0;
  } catch (const std::exception& error) {
    log_line(error.what());
    return 2;
  }
}

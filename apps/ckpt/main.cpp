#include <exception>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/guarded.hpp"

namespace matrixfsdp::ckpt {
namespace {

int act(const Command& command) {
  switch (command.action) {
    case Action::list:
      return list(command);
    case Action::show:
      return show(command);
    case Action::verify:
      return verify(command);
    case Action::diff:
      return diff(command);
    case Action::reshard:
      return reshard(command);
    case Action::export_tensors:
      return export_tensors(command);
    case Action::import_tensors:
      return import_tensors(command);
    case Action::none:
      break;
  }
  throw ContractError("no command");
}

/// Only here are exceptions caught: one line, exit code 2.
int tell(const std::function<int()>& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    log_line(error.what());
    return exit_error;
  }
}

int run(int argc, char** argv) {
  const Command command = parse_command(argc, argv);
  if (!command.text_and_exit.empty()) {
    fmt::print("{}", command.text_and_exit);
    return exit_ok;
  }
  return run_guarded([&] { return tell([&] { return act(command); }); });
}

}  // namespace
}  // namespace matrixfsdp::ckpt

int main(int argc, char** argv) {
  return matrixfsdp::ckpt::tell([&] { return matrixfsdp::ckpt::run(argc, argv); });
}

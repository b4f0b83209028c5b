#include <chrono>
#include <exception>

#include <fmt/format.h>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "apps/generate/command_line.hpp"
#include "apps/generate/generate.hpp"

int main(int argc, char** argv) {
  using namespace matrixfsdp;
  return run_main([&]() -> int {
    // The command line first, because the session wants its threads and deadline; an error is told once MPI knows the
    // rank.
    generate::Command command;
    std::exception_ptr error;
    try {
      command = generate::parse_command(argc, argv);
    } catch (const InputError&) {
      error = std::current_exception();
    }
    SessionOptions options;
    options.threads = command.threads;
    options.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * command.timeout_seconds));
    Session session = Session::start(argc, argv, options);
    if (error) std::rethrow_exception(error);
    if (!command.text_and_exit.empty()) {
      if (session.world().rank() == 0) fmt::print("{}", command.text_and_exit);
      return exit_ok;
    }
    linalg::set_threads(command.threads);
    return generate::generate(session, command);
  });
}

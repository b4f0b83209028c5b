#include <exception>
#include <optional>

#include <fmt/format.h>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "apps/train/options.hpp"
#include "apps/train/run.hpp"
#include "apps/train/stop_signal.hpp"

int main(int argc, char** argv) {
  using namespace matrixfsdp;
  return run_main([&]() -> int {
    // The command line first, because the session wants its threads and deadline; an error is told once MPI knows the
    // rank.
    train::CommandLine command;
    std::exception_ptr error;
    try {
      command = train::parse_command_line(argc, argv);
    } catch (const InputError&) {
      error = std::current_exception();
    }
    // Before any other thread. Without a folder there is nothing to save, and the signals keep their meaning.
    std::optional<train::StopSignal> stop_signal;
    if (!command.options.checkpoint_folder.empty()) stop_signal.emplace();
    SessionOptions session_options;
    session_options.threads = command.options.threads;
    session_options.deadline =
        std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * command.options.timeout_seconds));
    Session session = Session::start(argc, argv, session_options);
    if (error) std::rethrow_exception(error);
    if (!command.text_and_exit.empty()) {
      if (session.world().rank() == 0) fmt::print("{}", command.text_and_exit);
      return exit_ok;
    }
    linalg::set_threads(command.options.threads);
    return train::run(session, command.options, stop_signal ? &*stop_signal : nullptr);
  });
}

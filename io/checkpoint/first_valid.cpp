#include "io/checkpoint/first_valid.hpp"

#include <sstream>

#include <fmt/format.h>

#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/schema/folders.hpp>

#include "io/checkpoint/open.hpp"

namespace matrixfsdp::io {

std::optional<std::string> first_valid(
    Communicator& communicator, const std::string& folder,
    const std::function<std::optional<Failure>(const std::string& step_folder)>& use) {
  require_equal(communicator, stream_of(folder), "folder of checkpoints (hash)");
  std::string lines;
  const auto list = [&] {
    std::string text;
    for (const std::string& name : steps_to_try(folder))
      text.append(name).append("\n");
    return text;
  };
  if (const auto failure = from_rank_zero(communicator, "search for checkpoints", list, lines)) failure->raise();

  std::istringstream names(lines);
  std::string problem;
  for (std::string name; std::getline(names, name);) {
    const std::string step_folder = fmt::format("{}/{}", folder, name);
    const auto failure = use(step_folder);
    if (!failure) return step_folder;
    if (problem.empty()) problem = failure->text;
    if (communicator.rank() == 0) {
      log_line(fmt::format("warning: checkpoint {} is not used: {}", name, failure->text));
    }
  }
  if (!problem.empty()) {
    throw IoError(
        fmt::format("'{}': holds no valid checkpoint (the newest: {}); expected one, or an empty folder to "
                    "start anew in",
                    folder, problem));
  }
  return std::nullopt;
}

std::optional<std::string> find_latest(Communicator& communicator, const std::string& folder,
                                       std::chrono::milliseconds deadline) {
  const Patience patience(communicator, deadline);
  return first_valid(communicator, folder, [&](const std::string& step_folder) {
    Manifest manifest;
    return open_checkpoint(communicator, step_folder, manifest);
  });
}

}  // namespace matrixfsdp::io

#pragma once

#include <filesystem>
#include <string>

#include <fmt/format.h>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {

/// Runs `body`, which reads or writes the file `path` of `option`, on rank 0; what it throws about files and input ends
/// the job on all ranks alike.
template <class Body>
void on_first_rank(Communicator& communicator, const std::string& option, const std::string& path, const Body& body) {
  std::string error;
  try {
    if (communicator.rank() == 0) body();
  } catch (const InputError& bad) {
    error = bad.what();
  } catch (const IoError& bad) {
    error = fmt::format("{} {}", option, bad.what());
  } catch (const std::filesystem::filesystem_error& bad) {
    error = fmt::format("{} '{}': {}", option, path, bad.code().message());
  }
  agree_on_input(communicator, error);
}

}  // namespace matrixfsdp::train

#pragma once

#include <optional>
#include <string>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/schema/manifest.hpp>

#include "io/checkpoint/agree.hpp"

namespace matrixfsdp::io {

/// Reads the manifest (rank 0, for all) and verifies size and content of its files (each by one rank). The same verdict
/// on every rank.
std::optional<Failure> open_checkpoint(Communicator& communicator, const std::string& step_folder, Manifest& manifest);

}  // namespace matrixfsdp::io

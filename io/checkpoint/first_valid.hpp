#pragma once

#include <functional>
#include <optional>
#include <string>

#include "io/checkpoint/agree.hpp"

namespace matrixfsdp::io {

/// Collective. Passes the steps of FOLDER to `use`, in the order in which a restarted run tries them, until it returns
/// nothing, on all ranks alike: that step's folder. A failure is a warning from rank 0. Nothing where there is no step;
/// IoError where there are some and all fail.
std::optional<std::string> first_valid(
    Communicator& communicator, const std::string& folder,
    const std::function<std::optional<Failure>(const std::string& step_folder)>& use);

}  // namespace matrixfsdp::io

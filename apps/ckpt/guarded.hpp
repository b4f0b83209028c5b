#pragma once

#include <functional>

namespace matrixfsdp::ckpt {

/// Runs `body` in a child process and returns its exit code. HDF5 may crash on a file that was made to harm it: where a
/// signal ends the child, says so in one line and returns 2. Throws IoError where no process can be made.
int run_guarded(const std::function<int()>& body);

}  // namespace matrixfsdp::ckpt

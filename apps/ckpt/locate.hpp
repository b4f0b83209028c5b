#pragma once

#include <string>

namespace matrixfsdp::ckpt {

/// The folder of one step: `path` itself where it has a manifest or the name of a step, else the one that a restarted
/// run would try first in a folder of checkpoints. Throws InputError where there is neither.
std::string locate(const std::string& path);

}  // namespace matrixfsdp::ckpt

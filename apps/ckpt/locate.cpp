#include "apps/ckpt/locate.hpp"

#include <filesystem>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/folders.hpp>
#include <matrixfsdp/schema/manifest.hpp>

namespace matrixfsdp::ckpt {

namespace fs = std::filesystem;

std::string locate(const std::string& path) {
  if (!fs::is_directory(path)) {
    throw InputError(fmt::format("'{}': is not a folder; expected that of a checkpoint, or of several", path));
  }
  const fs::path folder = fs::absolute(path).lexically_normal();
  const fs::path name = folder.has_filename() ? folder.filename() : folder.parent_path().filename();
  if (fs::exists(folder / io::manifest_name) || io::parse_step_name(name.string())) return path;
  const auto steps = io::steps_to_try(path);
  if (steps.empty()) {
    throw InputError(fmt::format("'{}': has no {} and no folder step_N; expected a checkpoint, or a folder of them",
                                 path, io::manifest_name));
  }
  return path + "/" + steps.front();
}

}  // namespace matrixfsdp::ckpt

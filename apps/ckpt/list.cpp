#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/folders.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/report.hpp"

namespace matrixfsdp::ckpt {
namespace {

namespace fs = std::filesystem;

struct Listed {
  std::int64_t step = 0;
  std::optional<io::Manifest> manifest;  ///< where it could be read
  std::string problem;                   ///< empty: none was found
};

void check_size(const std::string& folder, const io::StoredFile& file) {
  const auto bytes = static_cast<std::int64_t>(fs::file_size(folder + "/" + file.name));
  if (bytes != file.bytes) {
    throw IoError(fmt::format("'{}': {} bytes; the manifest says {}", file.name, bytes, file.bytes));
  }
}

Listed look_at(const std::string& folder, std::int64_t step, bool quick) {
  Listed listed;
  listed.step = step;
  try {
    io::CheckpointReader reader(folder);
    listed.manifest = reader.manifest();
    for (const io::StoredFile& file : reader.manifest().files)
      quick ? check_size(folder, file) : reader.verify(file);
  } catch (const std::exception& error) {
    listed.problem = error.what();
  }
  return listed;
}

std::int64_t bytes_of(const io::Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const io::StoredFile& file : manifest.files)
    bytes += file.bytes;
  return bytes;
}

Json to_json(const Listed& listed) {
  Json value{{"name", io::step_name(listed.step)},
             {"step", listed.step},
             {"valid", listed.problem.empty()},
             {"problem", listed.problem.empty() ? Json() : Json(listed.problem)}};
  const auto& manifest = listed.manifest;
  value["bytes"] = manifest ? Json(bytes_of(*manifest)) : Json();
  value["loss"] = manifest && manifest->state.loss ? Json(*manifest->state.loss) : Json();
  value["world_size"] = manifest ? Json(manifest->world_size) : Json();
  value["planner"] = manifest ? Json(manifest->planner) : Json();
  value["elements"] = manifest ? Json(element_count(manifest->model)) : Json();
  return value;
}

std::vector<std::string> row_of(const Listed& listed) {
  const auto& manifest = listed.manifest;
  const std::string verdict = listed.problem.empty() ? "valid" : "NOT VALID: " + listed.problem;
  if (!manifest) return {io::step_name(listed.step), "", "", "", "", verdict};
  return {io::step_name(listed.step),
          std::to_string(bytes_of(*manifest)),
          manifest->state.loss ? fmt::format("{:.4f}", *manifest->state.loss) : "",
          std::to_string(manifest->world_size),
          manifest->planner,
          verdict};
}

void print(const std::string& folder, const std::vector<Listed>& all, const std::string& latest) {
  std::vector<std::vector<std::string>> rows{{"checkpoint", "bytes", "loss", "W", "planner ", "state "}};
  for (const Listed& listed : all)
    rows.push_back(row_of(listed));
  fmt::print(
      "{}{}", table(rows),
      all.empty() ? fmt::format("no checkpoints in '{}'\n", folder) : fmt::format("a run continues from {}\n", latest));
}

}  // namespace

int list(const Command& command) {
  if (!fs::is_directory(command.source)) {
    throw InputError(fmt::format("'{}': is not a folder; expected a folder of checkpoints", command.source));
  }
  std::vector<Listed> all;
  bool valid = true;
  for (const std::int64_t step : io::list_steps(command.source)) {
    all.push_back(look_at(command.source + "/" + io::step_name(step), step, command.quick));
    valid = valid && all.back().problem.empty();
  }
  const auto order = io::steps_to_try(command.source);
  const std::string latest = order.empty() ? "" : order.front();
  if (command.json) {
    Json checkpoints = Json::array();
    for (const Listed& listed : all)
      checkpoints.push_back(to_json(listed));
    print_json({{"folder", command.source},
                {"latest", order.empty() ? Json() : Json(latest)},
                {"checksums", !command.quick},
                {"checkpoints", checkpoints}});
  } else {
    print(command.source, all, latest);
  }
  return valid ? exit_ok : exit_different;
}

}  // namespace matrixfsdp::ckpt

#include "io/checkpoint/open.hpp"

#include <filesystem>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::io {

std::optional<Failure> open_checkpoint(Communicator& communicator, const std::string& step_folder, Manifest& manifest) {
  const std::string path = fmt::format("{}/{}", step_folder, manifest_name);
  std::string text;
  const auto read = [&] {
    if (!std::filesystem::exists(path)) {
      throw InputError(
          fmt::format("checkpoint '{}': has no {}; expected the folder of one step", step_folder, manifest_name));
    }
    std::string content = read_text(path);
    (void)parse_manifest(content, path);  // one rank's error is enough
    return content;
  };
  if (auto failure = from_rank_zero(communicator, "manifest", read, text)) return failure;
  return agree(communicator, "verification of files", attempt([&] {
                 manifest = parse_manifest(text, path);
                 const auto ranks = static_cast<std::size_t>(communicator.size());
                 for (auto i = static_cast<std::size_t>(communicator.rank()); i < manifest.files.size(); i += ranks)
                   verify_file(step_folder, manifest.files[i]);
               }));
}

}  // namespace matrixfsdp::io

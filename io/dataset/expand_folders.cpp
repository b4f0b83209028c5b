#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "io/dataset/token_file.hpp"

namespace matrixfsdp::io {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> files_of(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> files;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with('.') && entry->is_regular_file(error)) files.push_back(entry->path().string());
    if (error) break;
  }
  if (error) throw InputError(fmt::format("data folder '{}': cannot be read: {}", folder, error.message()));
  if (files.empty()) {
    throw InputError(fmt::format("data folder '{}': holds no files; expected text or .bin token shards", folder));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::vector<std::string> expand_folders(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    std::error_code ignored;  // what is wrong with a path is said when it is opened
    if (!fs::is_directory(path, ignored)) {
      files.push_back(path);
      continue;
    }
    const auto inside = files_of(path);
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

}  // namespace matrixfsdp::io

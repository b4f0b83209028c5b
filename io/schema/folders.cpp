#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/folders.hpp>

namespace matrixfsdp::io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view step_prefix = "step_";
constexpr std::string_view temporary_prefix = ".saving-";  // then step_N, a minus sign and 16 hexadecimal digits
constexpr std::string_view latest_file = "latest";

constexpr std::string_view rank_prefix = "rank_";
constexpr std::string_view rank_suffix = ".h5";

/// A number of 0 or more, and nothing else.
template <class Integer>
std::optional<Integer> parse_number(std::string_view digits) {
  Integer value = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0) return std::nullopt;
  return value;
}

std::string new_temporary_name(std::int64_t step) {
  std::random_device device;
  const std::uint64_t unique = (std::uint64_t{device()} << 32) | device();
  return fmt::format("{}{}-{}", temporary_prefix, step_name(step), checksum_text(unique));
}

bool is_temporary_name(std::string_view name) {
  if (!name.starts_with(temporary_prefix)) return false;
  name.remove_prefix(temporary_prefix.size());
  const std::size_t minus = name.find('-');
  return minus != std::string_view::npos && parse_step_name(name.substr(0, minus)).has_value() &&
         parse_checksum(name.substr(minus + 1)).has_value();
}

void remove_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) log_line(fmt::format("warning: '{}' cannot be removed: {}", path.string(), error.message()));
}

/// Out of the way first, so that a removal that is interrupted leaves no half checkpoint under a good name.
void retire(const std::string& folder, std::int64_t step) {
  const fs::path aside = fs::path(folder) / new_temporary_name(step);
  fs::rename(fs::path(folder) / step_name(step), aside);
  remove_folder(aside);
}

/// Swaps two folders at once, so that there is no moment without a good one. False where the file system cannot.
bool exchange(const fs::path& first, const fs::path& second) {
#if defined(__linux__) && defined(RENAME_EXCHANGE)
  return ::renameat2(AT_FDCWD, first.c_str(), AT_FDCWD, second.c_str(), RENAME_EXCHANGE) == 0;
#else
  (void)first;
  (void)second;
  return false;
#endif
}

}  // namespace

std::string step_name(std::int64_t step) {
  return fmt::format("{}{:08}", step_prefix, step);
}

std::optional<std::int64_t> parse_step_name(std::string_view name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  const auto step = parse_number<std::int64_t>(name.substr(step_prefix.size()));
  return step && step_name(*step) == name ? step : std::nullopt;
}

std::string rank_file_name(int rank) {
  return fmt::format("{}{:05}{}", rank_prefix, rank, rank_suffix);
}

std::optional<int> parse_rank_file_name(std::string_view name) {
  if (!name.starts_with(rank_prefix) || !name.ends_with(rank_suffix)) return std::nullopt;
  const std::string_view digits =
      name.substr(rank_prefix.size(), name.size() - rank_prefix.size() - rank_suffix.size());
  const auto rank = parse_number<int>(digits);
  return rank && rank_file_name(*rank) == name ? rank : std::nullopt;
}

std::vector<std::int64_t> list_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  if (!fs::exists(folder)) return steps;
  if (!fs::is_directory(folder)) throw InputError(fmt::format("'{}': is not a folder of checkpoints", folder));
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const auto step = parse_step_name(entry.path().filename().string());
    if (step && entry.is_directory()) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<std::string> steps_to_try(const std::string& folder) {
  std::vector<std::int64_t> steps = list_steps(folder);
  std::reverse(steps.begin(), steps.end());
  const std::string latest_path = fmt::format("{}/{}", folder, latest_file);
  if (fs::exists(latest_path)) {
    std::string latest = read_text(latest_path);
    if (latest.ends_with('\n')) latest.pop_back();
    if (const auto step = parse_step_name(latest)) {
      std::stable_partition(steps.begin(), steps.end(), [&](std::int64_t other) { return other <= *step; });
    } else {
      log_line(fmt::format("warning: '{}' does not name a step: using the last one", latest_path));
    }
  }
  std::vector<std::string> names;
  names.reserve(steps.size());
  for (const std::int64_t step : steps)
    names.push_back(step_name(step));
  return names;
}

std::string make_temporary_folder(const std::string& folder, std::int64_t step) {
  fs::create_directories(folder);
  std::string name = new_temporary_name(step);
  if (!fs::create_directory(fs::path(folder) / name)) {
    throw IoError(fmt::format("'{}/{}': exists already; expected a new name", folder, name));
  }
  return name;
}

Unpublished::Unpublished(std::string path, bool owner) : path_(std::move(path)), owner_(owner) {}

Unpublished::~Unpublished() {
  std::error_code ignored;  // the next save tries again
  if (owner_) fs::remove_all(path_, ignored);
}

void remove_stale_folders(const std::string& folder) {
  if (!fs::is_directory(folder)) return;
  std::vector<fs::path> stale;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (is_temporary_name(entry.path().filename().string()) && entry.is_directory()) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale)
    remove_folder(path);
}

void publish(const std::string& folder, const std::string& temporary, std::int64_t step) {
  const fs::path target = fs::path(folder) / step_name(step);
  const fs::path filled = fs::path(folder) / temporary;
  const bool replaces = fs::exists(target);
  if (!replaces) {
    fs::rename(filled, target);
  } else if (!exchange(filled, target)) {
    const fs::path aside = fs::path(folder) / new_temporary_name(step);
    fs::rename(target, aside);
    fs::rename(filled, target);
    fs::rename(aside, filled);
  }
  flush_to_disk(folder);
  write_text_durably(fmt::format("{}/{}", folder, latest_file), step_name(step) + "\n");
  if (replaces) remove_folder(filled);
}

void prune(const std::string& folder, std::int64_t step, int keep_last) {
  if (keep_last == 0) return;
  std::vector<std::int64_t> steps = list_steps(folder);
  std::erase_if(steps, [&](std::int64_t other) { return other >= step; });
  const auto keep = static_cast<std::size_t>(keep_last - 1);
  for (std::size_t i = 0; i + keep < steps.size(); ++i) {
    try {
      retire(folder, steps[i]);
    } catch (const fs::filesystem_error& error) {
      log_line(fmt::format("warning: old checkpoint {} stays: {}", step_name(steps[i]), error.what()));
    }
  }
}

}  // namespace matrixfsdp::io

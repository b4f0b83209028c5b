#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// @file
/// Names inside a folder of checkpoints. Of a job, only rank 0 calls what looks at the disk or changes it.
namespace matrixfsdp::io {

/// "step_00000012".
std::string step_name(std::int64_t step);
/// Inverse; nothing for any other name.
std::optional<std::int64_t> parse_step_name(std::string_view name);

/// Name of the file of a rank's tensors: "rank_00002.h5".
std::string rank_file_name(int rank);
/// Inverse; nothing for any other name.
std::optional<int> parse_rank_file_name(std::string_view name);

/// Steps of which the folder holds a checkpoint, valid or not, ascending.
std::vector<std::int64_t> list_steps(const std::string& folder);

/// Names of steps in the order in which a restarted run tries them: the one that `latest` names, older ones from new to
/// old, then later ones (of a run that was taken back) from new to old.
std::vector<std::string> steps_to_try(const std::string& folder);

/// Creates the folder if need be, and in it a temporary folder with a name that no other save has. Returns its name.
std::string make_temporary_folder(const std::string& folder, std::int64_t step);

/// A temporary folder that is being filled; its owner (rank 0) removes it again unless it was published.
class Unpublished {
 public:
  /// `owner`: this process removes it.
  Unpublished(std::string path, bool owner);
  ~Unpublished();
  Unpublished(const Unpublished&) = delete;
  Unpublished& operator=(const Unpublished&) = delete;

  /// Where it is, under its temporary name.
  [[nodiscard]] const std::string& path() const { return path_; }
  /// It has been renamed: nothing is left to remove.
  void published() { owner_ = false; }

 private:
  std::string path_;
  bool owner_;
};

/// Removes temporary folders that interrupted saves have left, and nothing else. Failures are logged.
void remove_stale_folders(const std::string& folder);

/// Renames a temporary folder to step_N in one step (replacing an earlier step_N), flushes, and points `latest` to it.
void publish(const std::string& folder, const std::string& temporary, std::int64_t step);

/// Removes steps before `step` so that `keep_last` remain with it; 0: none is removed. Failures are logged: the new
/// checkpoint stands.
void prune(const std::string& folder, std::int64_t step, int keep_last);

}  // namespace matrixfsdp::io

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/index_file.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/locate.hpp"
#include "apps/ckpt/report.hpp"
#include "apps/ckpt/statistics.hpp"

namespace matrixfsdp::ckpt {
namespace {

struct Verdict {
  std::vector<std::string> problems;
  std::vector<std::string> foreign;  ///< entries of the folder that the manifest does not list
  std::size_t files = 0;
  std::size_t tensors = 0;
  std::int64_t elements = 0;
  std::int64_t non_finite = 0;

  /// Calls `body`; its exception is a problem. True where there was none.
  template <class Body>
  bool check(const Body& body) {
    try {
      body();
      return true;
    } catch (const std::exception& error) {
      problems.emplace_back(error.what());
      return false;
    }
  }
};

/// Files that are not what the manifest says; what is in them is not read then.
std::set<std::string> check_files(io::CheckpointReader& reader, Verdict& verdict) {
  std::set<std::string> bad;
  const auto& files = reader.manifest().files;
  for (const io::StoredFile& file : files) {
    if (!verdict.check([&] { reader.verify(file); })) bad.insert(file.name);
  }
  verdict.files = files.size();
  const std::string index(io::index_name);
  const bool listed =
      std::any_of(files.begin(), files.end(), [&](const io::StoredFile& file) { return file.name == index; });
  if (!listed) {
    verdict.problems.push_back(fmt::format("'{}': the manifest does not list it; expected an index", index));
  } else if (!bad.contains(index)) {
    verdict.check([&] { io::verify_index_file(reader.folder(), reader.manifest()); });
  }
  return bad;
}

void check_tensor(io::CheckpointReader& reader, const std::string& parameter, const std::string& what,
                  Verdict& verdict) {
  std::optional<Statistics> statistics;
  if (!verdict.check([&] { statistics = statistics_of(reader, parameter, what); })) return;
  verdict.elements += statistics->finite + statistics->non_finite;
  verdict.non_finite += statistics->non_finite;
  if (statistics->non_finite > 0) {
    verdict.problems.push_back(
        fmt::format("{} of '{}': {} values are not finite", what, parameter, statistics->non_finite));
  }
}

void find_foreign(const io::CheckpointReader& reader, Verdict& verdict) {
  std::set<std::string> known{std::string(io::manifest_name)};
  for (const io::StoredFile& file : reader.manifest().files)
    known.insert(file.name);
  for (const auto& entry : std::filesystem::directory_iterator(reader.folder())) {
    const std::string name = entry.path().filename().string();
    if (!known.contains(name)) verdict.foreign.push_back(name);
  }
  std::sort(verdict.foreign.begin(), verdict.foreign.end());
}

Verdict examine(const std::string& folder) {
  Verdict verdict;
  std::optional<io::CheckpointReader> reader;
  // With it structure and coverage: the manifest is not read otherwise.
  if (!verdict.check([&] { reader.emplace(folder); })) return verdict;
  const auto bad = check_files(*reader, verdict);
  for (const auto& [tensor, segments] : reader->tensors()) {
    const bool readable = std::none_of(segments.begin(), segments.end(),
                                       [&](const io::StoredSegment* segment) { return bad.contains(segment->file); });
    if (readable) check_tensor(*reader, segments.front()->parameter, segments.front()->what, verdict);
  }
  verdict.tensors = reader->tensors().size();
  find_foreign(*reader, verdict);
  return verdict;
}

void print(const std::string& folder, const Verdict& verdict) {
  for (const std::string& problem : verdict.problems)
    fmt::print("{}\n", problem);
  for (const std::string& name : verdict.foreign)
    fmt::print("note: '{}' is not part of the checkpoint\n", name);
  if (verdict.problems.empty()) {
    fmt::print("{}: valid: {} files, {} tensors, {} elements, each stored once, all finite, every checksum fits\n",
               folder, verdict.files, verdict.tensors, verdict.elements);
  } else {
    fmt::print("{}: NOT VALID: {} problem{}\n", folder, verdict.problems.size(),
               verdict.problems.size() > 1 ? "s" : "");
  }
}

}  // namespace

int verify(const Command& command) {
  const std::string folder = locate(command.source);
  const Verdict verdict = examine(folder);
  if (command.json) {
    print_json({{"checkpoint", folder},
                {"valid", verdict.problems.empty()},
                {"problems", verdict.problems},
                {"foreign", verdict.foreign},
                {"files", verdict.files},
                {"tensors", verdict.tensors},
                {"elements", verdict.elements},
                {"non_finite", verdict.non_finite}});
  } else {
    print(folder, verdict);
  }
  return verdict.problems.empty() ? exit_ok : exit_different;
}

}  // namespace matrixfsdp::ckpt

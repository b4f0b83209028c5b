#include <optional>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/folders.hpp>

#include "apps/ckpt/actions.hpp"
#include "apps/ckpt/locate.hpp"
#include "apps/ckpt/report.hpp"
#include "apps/ckpt/statistics.hpp"

namespace matrixfsdp::ckpt {
namespace {

/// One line of the table.
struct Shown {
  const ParameterSpec* spec = nullptr;
  const std::vector<const io::StoredSegment*>* segments = nullptr;
  std::optional<Statistics> statistics;
  std::optional<Histogram> histogram;

  [[nodiscard]] const std::string& what() const { return segments->front()->what; }
  [[nodiscard]] const Shape& shape() const { return segments->front()->whole_shape(spec->shape); }
  [[nodiscard]] std::int64_t bytes() const {
    std::int64_t bytes = 0;
    for (const io::StoredSegment* segment : *segments)
      bytes += segment->bytes;
    return bytes;
  }
  /// Ranks that have written a part; other names of files as they are.
  [[nodiscard]] std::set<int> ranks() const {
    std::set<int> ranks;
    for (const io::StoredSegment* segment : *segments) {
      if (const auto rank = io::parse_rank_file_name(segment->file)) ranks.insert(*rank);
    }
    return ranks;
  }
};

bool wanted(const std::vector<std::string>& patterns, const std::string& name) {
  for (const std::string& pattern : patterns) {
    if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return true;
  }
  return patterns.empty();
}

std::vector<Shown> collect(io::CheckpointReader& reader, const Command& command) {
  std::vector<Shown> all;
  for (const io::StoredSegment& segment : reader.manifest().segments) {
    const bool again = !all.empty() && all.back().spec->name == segment.parameter && all.back().what() == segment.what;
    if (again || !wanted(command.tensors, segment.parameter)) continue;
    Shown shown;
    shown.spec = &reader.parameter(segment.parameter);
    shown.segments = &reader.tensors().at({segment.parameter, segment.what});
    all.push_back(std::move(shown));
  }
  if (all.empty() && !command.tensors.empty()) {
    throw InputError(
        fmt::format("'{}': no parameter of the checkpoint has such a name", fmt::join(command.tensors, " ")));
  }
  for (Shown& shown : all) {
    if (!command.statistics && !command.histogram) break;
    const Statistics statistics = statistics_of(reader, shown.spec->name, shown.what());
    if (command.histogram) shown.histogram = histogram_of(reader, shown.spec->name, shown.what(), statistics);
    if (command.statistics) shown.statistics = statistics;
  }
  return all;
}

Json to_json(const Shown& shown) {
  Json value{{"parameter", shown.spec->name},
             {"what", shown.what()},
             {"kind", name_of(kind_of(*shown.spec))},
             {"frozen", shown.spec->frozen},
             {"shape", shown.shape()},
             {"dtype", name_of(shown.segments->front()->dtype)},
             {"optimizer", shown.what() == io::weight_name ? Json() : Json(shown.segments->front()->optimizer)},
             {"bytes", shown.bytes()},
             {"segments", shown.segments->size()},
             {"ranks", shown.ranks()}};
  if (shown.statistics) value["statistics"] = to_json(*shown.statistics);
  if (shown.histogram) value["histogram"] = to_json(*shown.histogram);
  return value;
}

/// "2", "0-3" or "0,2,5".
std::string shown_ranks(const std::set<int>& ranks) {
  if (ranks.size() < 3) return fmt::format("{}", fmt::join(ranks, ","));
  const bool neighbours = *ranks.rbegin() - *ranks.begin() + 1 == static_cast<int>(ranks.size());
  if (neighbours) return fmt::format("{}-{}", *ranks.begin(), *ranks.rbegin());
  return fmt::format("{}", fmt::join(ranks, ","));
}

std::vector<std::string> row_of(const Shown& shown) {
  std::vector<std::string> row{shown.what() == io::weight_name ? shown.spec->name : "  " + shown.what(),
                               to_string(shown.shape()),
                               std::string(name_of(shown.segments->front()->dtype)),
                               std::to_string(shown.bytes()),
                               std::string(name_of(kind_of(*shown.spec))),
                               shown_ranks(shown.ranks())};
  if (const auto& s = shown.statistics) {
    const auto known = [&](double value) { return s->finite > 0 ? fmt::format("{:.4g}", value) : std::string("-"); };
    row.insert(row.end(), {known(s->minimum), known(s->maximum), known(s->mean()), fmt::format("{:.4g}", s->norm()),
                           std::to_string(s->non_finite)});
  }
  return row;
}

std::string heading(const io::CheckpointReader& reader) {
  const io::Manifest& manifest = reader.manifest();
  const io::TrainingState& state = manifest.state;
  std::string text =
      fmt::format("{}: step {}, {} steps changed weights, seed {}, next data step {}, sum group {}\n", reader.folder(),
                  state.step, state.optimizer_steps, state.seed, state.data_step, state.sum_group);
  if (state.loss) text += fmt::format("loss {:.6f}\n", *state.loss);
  text += fmt::format("{} elements in {} units; plan {} for {} ranks\n", element_count(manifest.model),
                      manifest.model.units.size(), manifest.planner, manifest.world_size);
  for (const TiedParameter& tied : manifest.model.tied)
    text += fmt::format("{} is another name of {}\n", tied.name, tied.target);
  return text + "\n";
}

std::string to_text(const io::CheckpointReader& reader, const std::vector<Shown>& all, const Command& command) {
  std::vector<std::string> head{"tensor", "shape ", "dtype ", "bytes", "kind ", "ranks "};
  if (command.statistics) head.insert(head.end(), {"min", "max", "mean", "norm", "not finite"});
  std::vector<std::vector<std::string>> rows{head};
  for (const Shown& shown : all)
    rows.push_back(row_of(shown));
  std::string text = heading(reader) + table(rows);
  for (const Shown& shown : all) {
    if (shown.histogram)
      text += fmt::format("\n{} of {}\n{}", shown.what(), shown.spec->name, to_text(*shown.histogram));
  }
  return text;
}

Json to_json(const io::CheckpointReader& reader, const std::vector<Shown>& all) {
  const io::Manifest& manifest = reader.manifest();
  Json tensors = Json::array();
  for (const Shown& shown : all)
    tensors.push_back(to_json(shown));
  Json tied = Json::array();
  for (const TiedParameter& name : manifest.model.tied)
    tied.push_back({{"name", name.name}, {"target", name.target}});
  Json json;
  json["checkpoint"] = reader.folder();
  json.update(state_json(manifest.state));
  json.update({{"planner", manifest.planner},
               {"world_size", manifest.world_size},
               {"elements", element_count(manifest.model)},
               {"tied", tied},
               {"tensors", tensors}});
  return json;
}

}  // namespace

int show(const Command& command) {
  io::CheckpointReader reader(locate(command.source));
  const auto all = collect(reader, command);
  if (command.json) {
    print_json(to_json(reader, all));
  } else {
    fmt::print("{}", to_text(reader, all, command));
  }
  return exit_ok;
}

}  // namespace matrixfsdp::ckpt

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "apps/page/page.hpp"
#include "apps/page/stacked_bars.hpp"
#include "apps/report/sections.hpp"

namespace matrixfsdp::report {
namespace {

using nlohmann::json;
using page::LineChart;
using page::StackedBars;

std::string grid(const std::string& charts) {
  return charts.empty() ? "" : fmt::format("<div class=\"charts\">\n{}</div>\n", charts);
}

std::string section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : fmt::format("<h2>{}</h2>\n{}", title, body);
}

/// One series of all runs.
std::string chart_of(const Runs& runs, const std::string& title, const std::string& unit, const std::string& series,
                     bool from_zero = false) {
  LineChart chart{title, unit, {}, from_zero};
  for (std::size_t k = 0; k < runs.size(); ++k) {
    if (!runs[k].values(series).empty())
      chart.lines.push_back({runs[k].name, static_cast<int>(k), false, runs[k].values(series)});
  }
  return page::to_svg(chart);
}

std::string loss_chart(const Runs& runs) {
  LineChart chart{"Loss", "nats per token", {}, false};
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const std::string name = runs.size() == 1 ? "" : runs[k].name + ", ";
    chart.lines.push_back({name + "train", static_cast<int>(k), false, runs[k].values("loss")});
    if (!runs[k].values("validation_loss").empty()) {
      chart.lines.push_back(
          {name + "validation", static_cast<int>(runs.size() == 1 ? 1 : k), true, runs[k].values("validation_loss")});
    }
  }
  return page::to_svg(chart);
}

/// Medians over the steps of "GROUP/PART", a bar for each run.
StackedBars medians(const Runs& runs, const std::string& title, const std::string& unit, const std::string& group,
                    const std::vector<std::string>& parts, double scale) {
  StackedBars chart{title, unit, parts, {}};
  for (const RunFile& run : runs) {
    page::StackedBar bar{run.name, {}};
    for (const std::string& part : parts)
      bar.values.push_back(scale * run.median(fmt::format("{}/{}", group, part)));
    chart.bars.push_back(std::move(bar));
  }
  return chart;
}

/// Names behind "GROUP/" that occur, those of `known` first and in their order.
std::vector<std::string> parts_of(const Runs& runs, const std::string& group, const std::vector<std::string>& known) {
  std::vector<std::string> parts;
  const auto occurs = [&](const std::string& part) {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const RunFile& run) { return !run.values(fmt::format("{}/{}", group, part)).empty(); });
  };
  std::copy_if(known.begin(), known.end(), std::back_inserter(parts), occurs);
  for (const RunFile& run : runs) {
    for (const auto& entry : run.series) {
      if (!entry.first.starts_with(group + "/")) continue;
      const std::string part = entry.first.substr(group.size() + 1);
      if (part == "total" || std::find(parts.begin(), parts.end(), part) != parts.end()) continue;
      parts.push_back(part);
    }
  }
  return parts;
}

bool steps_in_backward(const RunFile& run) {
  return at(at(run.header, "configuration"), "step_in_backward") == true;
}

/// With --step-in-backward the optimizer's time is a part of backward's too: it is shown once.
void count_once(const Runs& runs, StackedBars& chart) {
  const auto backward = std::find(chart.parts.begin(), chart.parts.end(), "backward") - chart.parts.begin();
  const auto optimizer = std::find(chart.parts.begin(), chart.parts.end(), "optimizer") - chart.parts.begin();
  const auto end = static_cast<std::ptrdiff_t>(chart.parts.size());
  if (backward == end || optimizer == end) return;
  for (std::size_t k = 0; k < runs.size(); ++k) {
    std::vector<double>& values = chart.bars[k].values;
    if (steps_in_backward(runs[k]))
      values[static_cast<std::size_t>(backward)] -= values[static_cast<std::size_t>(optimizer)];
  }
}

/// The unit in which the largest of "bytes/..." is a number of a few digits, and what one byte is in it.
std::pair<std::string, double> byte_unit(const Runs& runs) {
  double most = 0;
  for (const RunFile& run : runs) {
    for (const std::string& part : parts_of(runs, "bytes", {}))
      most = std::max(most, run.median("bytes/" + part));
  }
  if (most < 1e6) return {"kB", 1e-3};
  return most < 1e9 ? std::pair<std::string, double>{"MB", 1e-6} : std::pair<std::string, double>{"GB", 1e-9};
}

// Memory.

struct RankMemory {
  double owned = 0;
  double window = 0;
  double rest = 0;
};

constexpr std::size_t most_bars = 32;

double number_of(const json& value) {
  return value.is_number() ? value.get<double>() : 0;
}

double number_at(const json& array, std::size_t i) {
  return array.is_array() && i < array.size() ? number_of(array[i]) : 0;
}

std::vector<RankMemory> counted(const json& memory) {
  std::vector<RankMemory> ranks;
  const json owned = memory.value("owned_bytes", json::array());
  const json window = memory.value("window_bytes", json::array());
  const json resident = memory.value("resident_bytes", json::array());
  for (std::size_t i = 0; i < owned.size(); ++i) {
    const double o = number_at(owned, i);
    const double w = number_at(window, i);
    ranks.push_back({o, w, std::max(0.0, number_at(resident, i) - o - w)});
  }
  return ranks;
}

std::vector<RankMemory> predicted(const json& header) {
  std::vector<RankMemory> ranks;
  for (const json& rank : at(header, "ranks"))
    ranks.push_back({number_of(at(rank, "owned_bytes")), number_of(at(rank, "window_bytes")), 0});
  return ranks;
}

double sum_of(const RankMemory& rank) {
  return rank.owned + rank.window + rank.rest;
}

/// A bar for each rank, or for the fullest of a few neighbouring ones.
StackedBars bars_of(const std::vector<RankMemory>& ranks, const std::string& title) {
  constexpr double mega = 1e-6;
  StackedBars chart{
      title, "MB", {"weights, gradients, state", "unsharded units and buffers", "activations, scratch"}, {}};
  const std::size_t bars = std::min(ranks.size(), most_bars);
  for (std::size_t i = 0; i < bars; ++i) {
    const std::size_t first = i * ranks.size() / bars;
    const std::size_t end = (i + 1) * ranks.size() / bars;
    const auto fullest = std::max_element(
        ranks.begin() + static_cast<std::ptrdiff_t>(first), ranks.begin() + static_cast<std::ptrdiff_t>(end),
        [](const RankMemory& a, const RankMemory& b) { return sum_of(a) < sum_of(b); });
    const std::string label =
        end - first == 1 ? fmt::format("rank {}", first) : fmt::format("ranks {} to {}", first, end - 1);
    chart.bars.push_back({label, {mega * fullest->owned, mega * fullest->window, mega * fullest->rest}});
  }
  return chart;
}

}  // namespace

std::string training_charts(const Runs& runs) {
  return section("Training", grid(loss_chart(runs) + chart_of(runs, "Gradient norm", "", "grad_norm") +
                                  chart_of(runs, "Learning rate", "", "lr", true) +
                                  chart_of(runs, "Speed", "tokens per second", "tokens_per_second", true)));
}

std::string step_charts(const Runs& runs) {
  const auto [unit, scale] = byte_unit(runs);
  const auto phases = parts_of(runs, "milliseconds", {"forward", "backward", "clip", "optimizer"});
  const auto purposes = parts_of(runs, "bytes", {"unshard", "reduce", "clip", "optimizer"});
  std::string charts;
  if (!phases.empty()) {
    StackedBars times =
        medians(runs, "Time of a step by phase (medians, the slowest rank)", "ms", "milliseconds", phases, 1);
    count_once(runs, times);
    charts += page::to_svg(times);
  }
  if (!purposes.empty()) {
    charts += page::to_svg(
        medians(runs, "Bytes that all ranks send in a step, by purpose (medians)", unit, "bytes", purposes, scale));
  }
  charts += chart_of(runs, "Time of each step", "ms", "milliseconds/total", true);
  return section("A step", grid(charts));
}

std::string memory_charts(const Runs& runs) {
  std::string charts;
  for (const RunFile& run : runs) {
    const bool finished = run.memory.is_object();
    const std::vector<RankMemory> ranks = finished ? counted(run.memory) : predicted(run.header);
    charts += page::to_svg(bars_of(
        ranks, fmt::format("{}{}", runs.size() == 1 ? "" : run.name + ": ",
                           finished ? "counted at the end of the run" : "predicted by the plan, without activations")));
  }
  charts += chart_of(runs, "Most that one rank holds", "bytes", "peak_bytes", true);
  return section("Memory per rank", grid(charts));
}

}  // namespace matrixfsdp::report

#include "apps/bench/page_sections.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "apps/bench/optimizer_step.hpp"
#include "apps/bench/overlap.hpp"
#include "apps/bench/paper_model.hpp"
#include "apps/bench/paper_table.hpp"
#include "apps/bench/train_step.hpp"

namespace matrixfsdp::bench {
namespace {

using nlohmann::json;

double figure(const json& row, const std::string& name) {
  const json& value = row.at(name);
  return (value.is_object() ? value.at("median") : value).get<double>();
}

bool varies(const json& rows, const std::string& name) {
  return std::any_of(rows.begin(), rows.end(),
                     [&](const json& row) { return row.value(name, json()) != rows.front().value(name, json()); });
}

std::string joined(const json& row, const std::vector<std::string>& names) {
  std::string label;
  for (const std::string& name : names) {
    const json value = row.value(name, json());
    label += (label.empty() ? "" : ", ") + (value.is_string() ? value.get<std::string>() : name + " " + value.dump());
  }
  return label;
}

/// By what tells the rows apart; the first of `names` where nothing does.
std::vector<std::string> distinguishing(const json& rows, const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::string& name : names) {
    if (varies(rows, name)) result.push_back(name);
  }
  if (result.empty()) result.push_back(names.front());
  return result;
}

/// A bar for what was measured, and one below it for what was predicted.
Chart measured_beside_predicted(const json& rows, const std::string& title, const std::vector<std::string>& names,
                                const std::string& measured, const std::string& predicted) {
  const std::vector<std::string> telling = distinguishing(rows, names);
  Chart chart{title, "ms", {}};
  for (const json& row : rows) {
    chart.bars.push_back({joined(row, telling), Source::measured, figure(row, measured)});
    chart.bars.push_back({"", Source::predicted, figure(row, predicted)});
  }
  return chart;
}

Chart ratios(const json& rows, const std::string& title, const std::vector<std::string>& names) {
  const std::vector<std::string> telling = distinguishing(rows, names);
  Chart chart{title, "x", {}};
  for (const json& row : rows)
    chart.bars.push_back({joined(row, telling), Source::measured, figure(row, "ratio")});
  return chart;
}

/// What may tell rows apart.
const std::vector<std::string> optimizer_labels = {"strategy", "world_size"};
const std::vector<std::string> train_labels = {"strategy", "planner", "collective"};

Section optimizer_step_section(const json& rows) {
  Section section;
  section.columns = optimizer_step_columns();
  section.charts.push_back(
      measured_beside_predicted(rows, "The optimizer's step", optimizer_labels, "optimizer_ms", "predicted_ms"));
  if (varies(rows, "world_size")) {
    section.title = "Optimizer step, more and more ranks";
    section.words =
        "The same model on more and more ranks, until most own no matrix: the step cannot become shorter than the "
        "largest matrix of one owner. Each number of ranks is a run of its own with rates of its own. There is no "
        "published figure for it.";
    return section;
  }
  section.title = fmt::format("Optimizer step, {} Newton-Schulz steps", figure(rows.front(), "ns_steps"));
  section.words =
      "The optimizer's step of each strategy on the same gradients. The published stock is fsdp2: a matrix is rebuilt "
      "in every Newton-Schulz step. Published ratios are of 64 A100 and h = 4096, probably with 2 steps; the matrices "
      "here are much smaller, and a matrix of extent h brings h times as many operations for each byte that is sent, "
      "so that at the same rates links weigh more here than there.";
  Chart chart = ratios(rows, "Times the first strategy's step", optimizer_labels);
  for (const PaperStep& step : paper_steps()) {
    chart.bars.push_back({fmt::format("stock over MatrixFSDP, {} ranks", 8 * step.nodes), Source::published,
                          step.stock_step / step.matrix_step});
  }
  section.charts.push_back(std::move(chart));
  return section;
}

void add_published(const json& rows, Chart& chart) {
  if (varies(rows, "planner")) {
    const std::vector<PaperPolicy> policies = paper_policies();
    for (const PaperPolicy& policy : policies) {
      chart.bars.push_back({fmt::format("{} over {}, 64 ranks", policy.policy, policies.front().policy),
                            Source::published, policy.total / policies.front().total});
    }
  }
  if (varies(rows, "collective")) {
    for (const PaperPolicy& policy : paper_policies()) {
      if (policy.policy == "cost")
        chart.bars.push_back(
            {"padded over owners' segments, 64 ranks", Source::published, paper_padded_total / policy.total});
    }
  }
  if (!varies(rows, "strategy")) return;
  for (const PaperStep& step : paper_steps()) {
    chart.bars.push_back({fmt::format("stock over MatrixFSDP, {} ranks", 8 * step.nodes), Source::published,
                          step.stock_total / step.matrix_total});
  }
}

Section train_step_section(const json& rows) {
  Section section;
  section.title = "Whole training step";
  if (varies(rows, "planner")) section.title += ", planner policies";
  if (varies(rows, "collective")) section.title += ", padded all-gather instead of owners' segments";
  section.words =
      "Forward, backward and optimizer of a small transformer, in float32 on cores instead of bfloat16 on A100. "
      "Phases are those of the slowest rank; predicted is what the model of time says from the links and rates of the "
      "same run (products at the rate of one large sgemm). zero1-owner and ddp keep the whole model on every rank: "
      "they send less, and do not fit where a model is large. Here most memory is activations of so many tokens, and "
      "hardly shows it.";
  section.columns = train_step_columns();
  section.charts.push_back(measured_beside_predicted(rows, "Forward, backward and optimizer", train_labels, "total_ms",
                                                     "predicted_total_ms"));
  Chart chart = ratios(rows, "Times the first row's step", train_labels);
  add_published(rows, chart);
  section.charts.push_back(std::move(chart));
  Chart memory{"Bytes of the fullest rank", "MB", {}};
  const std::vector<std::string> telling = distinguishing(rows, train_labels);
  for (const json& row : rows)
    memory.bars.push_back({joined(row, telling), Source::measured, 1e-6 * figure(row, "peak_bytes")});
  section.charts.push_back(std::move(memory));
  return section;
}

Section overlap_section(const json& rows) {
  Section section;
  section.title = "Few matrices in a unit: communication behind computation";
  section.words =
      "Steps whose computation is a timed wait, for units of as many bytes in more or fewer matrices. The published "
      "weakness: with fewer matrices in a unit than ranks, the full owners' links set the pace. bound_ms is the longer "
      "of computation and communication, and what has nothing to hide behind.";
  section.columns = overlap_columns();
  section.charts.push_back(
      measured_beside_predicted(rows, "Step, and the bound", {"matrices", "progress"}, "step_ms", "bound_ms"));
  return section;
}

/// Published and predicted, of one figure.
Chart paper_chart(const json& rows, const std::string& name, const std::string& title, const std::string& unit) {
  Chart chart{title, unit, {}};
  for (const json& row : rows) {
    if (row.at("figure") != name || row.at("ns_steps") != 2) continue;
    chart.bars.push_back({joined(row, {"strategy", "model"}), Source::published, figure(row, "published")});
    chart.bars.push_back({row.at("fitted") == true ? "fitted" : "", Source::predicted, figure(row, "predicted")});
  }
  return chart;
}

Section paper_model_section(const json& rows) {
  Section section;
  section.title = "The model of time beside the published figures";
  section.words =
      "Nothing of this was measured here: four rates of the model are fitted to the published rows of 1 and 2 nodes, "
      "and all else is predicted. met: within the tolerance.";
  section.columns = paper_model_columns();
  section.charts = {paper_chart(rows, "step_ms", "The optimizer's step, 64 A100", "ms"),
                    paper_chart(rows, "total_ms", "Whole step, 64 A100", "ms"),
                    paper_chart(rows, "gb_tables_sharded", "Memory of a rank, 64 ranks", "GB")};
  return section;
}

Section any_section(const json& report) {
  Section section;
  section.title = report.at("benchmark").get<std::string>();
  for (const json& row : report.at("rows")) {
    for (const auto& [key, value] : row.items()) {
      if (std::find(section.columns.begin(), section.columns.end(), key) == section.columns.end())
        section.columns.push_back(key);
    }
  }
  return section;
}

}  // namespace

Section section_of(const json& report) {
  const json& rows = report.at("rows");
  const std::string benchmark = report.at("benchmark");
  if (benchmark == "optimizer-step") return optimizer_step_section(rows);
  if (benchmark == "train-step") return train_step_section(rows);
  if (benchmark == "overlap") return overlap_section(rows);
  if (benchmark == "paper-model") return paper_model_section(rows);
  return any_section(report);
}

}  // namespace matrixfsdp::bench

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tools/plan_program.hpp"

/// Machines, predictions, pictures and measured times of mfsdp-plan.
namespace matrixfsdp {
namespace {

using testing::fresh_folder;
using testing::lines_of;
using testing::measured_run;
using testing::plan_of;
using testing::run_plan;
using testing::write_file;

const std::vector<std::string> strategies = {"matrix-fsdp",    "fsdp2",       "fsdp2-gather",
                                             "fsdp2-alltoall", "zero1-owner", "ddp"};

TEST(PlanMachines, a_machine_predicts_every_strategy) {
  const auto plan = plan_of({"--model", "gpt2:124m", "--ranks", "16", "--machine", "a100-8x8"});
  EXPECT_EQ(plan["nodes"], 2) << "8 ranks a node";
  EXPECT_EQ(plan["machine"]["name"], "a100-8x8");
  ASSERT_EQ(plan["predictions"].size(), strategies.size());
  for (std::size_t s = 0; s < strategies.size(); ++s) {
    const auto& one = plan["predictions"][s];
    EXPECT_EQ(one["strategy"], strategies[s]);
    double sum = 0;
    for (const char* phase : {"forward_ms", "backward_ms", "optimizer_ms"}) {
      EXPECT_GT(one[phase].get<double>(), 0) << one;
      sum += one[phase].get<double>();
    }
    EXPECT_NEAR(one["total_ms"].get<double>(), sum, 1e-9 * sum);
    EXPECT_GT(one["bytes_per_rank"].get<std::int64_t>(), 0);
    EXPECT_EQ(one["optimizer_bytes_per_rank"].get<std::int64_t>() > 0,
              strategies[s] != "matrix-fsdp" && strategies[s] != "ddp")
        << one;
    EXPECT_GT(one["memory_bytes_per_rank"].get<std::int64_t>(), 0);
    EXPECT_EQ(one["fits"], true);
  }
  for (const auto& unit : plan["units"])
    EXPECT_GT(unit["unshard"]["predicted_seconds"].get<double>(), 0) << "of the machine's links";
  const auto text = run_plan({"--model", "gpt2:124m", "--ranks", "16", "--machine", "a100-8x8"});
  for (const std::string& name : strategies)
    EXPECT_NE(text.out.find("\n" + name + " "), std::string::npos) << name << " in: " << text.out;
}

// Twice the rate everywhere: half the time. A slow rank holds all up.
TEST(PlanMachines, a_machine_is_a_file_that_can_be_changed) {
  const std::string folder = fresh_folder("plan-machine");
  const std::string path = folder + "/machine.json";
  const std::vector<std::string> job = {"--model", "gpt2:d4", "--ranks", "8", "--machine"};
  const auto on = [&job](const std::string& machine) {
    std::vector<std::string> arguments = job;
    arguments.push_back(machine);
    return plan_of(arguments)["predictions"][0];
  };
  std::vector<std::string> write = job;
  write.insert(write.end(), {"h200-node", "--write-machine", path});
  ASSERT_EQ(run_plan(write).exit_code, 0);
  EXPECT_EQ(on(path), on("h200-node"));
  auto machine = nlohmann::json::parse(testing::read_file(path));
  machine["slow_ranks"] = {{{"rank", 7}, {"factor", 3}}};
  write_file(path, machine.dump());
  EXPECT_GT(on(path)["forward_ms"].get<double>(), on("h200-node")["forward_ms"].get<double>());
  machine["slow_ranks"] = nlohmann::json::array();
  for (const char* link : {"inside", "between"}) {
    machine[link]["latency_seconds"] = machine[link]["latency_seconds"].get<double>() / 2;
    for (const char* rate : {"bytes_per_second", "node_bytes_per_second"})
      machine[link][rate] = machine[link][rate].get<double>() * 2;
  }
  for (const char* rate : {"gemm_flops_per_second", "orthogonalize_flops_per_second", "memory_bytes_per_second"})
    machine[rate] = machine[rate].get<double>() * 2;
  write_file(path, machine.dump());
  EXPECT_NEAR(on(path)["total_ms"].get<double>() * 2 / on("h200-node")["total_ms"].get<double>(), 1, 1e-9);
  machine["memory_bytes"] = 1e6;
  write_file(path, machine.dump());
  EXPECT_EQ(on(path)["fits"], false);
}

TEST(PlanMachines, here_is_measured) {
  const auto plan = plan_of({"--model", "gpt2:d2", "--ranks", "2", "--machine", "here"});
  EXPECT_EQ(plan["machine"]["name"], "here");
  EXPECT_EQ(plan["machine"]["ranks_per_node"], 2);
  EXPECT_GT(plan["machine"]["gemm_flops_per_second"].get<double>(), 1e7);
  EXPECT_GT(plan["machine"]["orthogonalize_flops_per_second"].get<double>(), 1e7);
  EXPECT_GT(plan["predictions"][0]["total_ms"].get<double>(), 0);
}

TEST(PlanMachines, options_of_a_step_change_what_is_predicted) {
  const std::vector<std::string> job = {"--model", "gpt2:124m", "--ranks", "16", "--machine", "a100-8x8"};
  const auto with = [&job](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = job;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return plan_of(arguments)["predictions"];
  };
  const auto plain = with({});
  const auto get = [](const nlohmann::json& predictions, std::size_t strategy, const char* figure) {
    return predictions[strategy][figure].get<double>();
  };
  EXPECT_LT(get(with({"--recompute"}), 0, "memory_bytes_per_rank"), get(plain, 0, "memory_bytes_per_rank"));
  EXPECT_GT(get(with({"--recompute"}), 5, "backward_ms"), get(plain, 5, "backward_ms"));
  EXPECT_LT(get(with({"--param-dtype", "bfloat16"}), 0, "bytes_per_rank"), get(plain, 0, "bytes_per_rank"));
  EXPECT_LT(get(with({"--reduce-dtype", "bfloat16"}), 0, "bytes_per_rank"), get(plain, 0, "bytes_per_rank"));
  EXPECT_EQ(get(with({"--no-master-weights"}), 1, "optimizer_bytes_per_rank") * 2,
            get(plain, 1, "optimizer_bytes_per_rank"));
  EXPECT_NEAR(
      get(with({"--ns-steps", "10"}), 1, "optimizer_bytes_per_rank") / get(plain, 1, "optimizer_bytes_per_rank"), 2,
      0.01)
      << "fsdp2 gathers in every step";
  EXPECT_EQ(get(with({"--optimizer", "adamw"}), 1, "optimizer_bytes_per_rank"), 0);
  // A second worker may get any matrix but the largest of 12 alike: a direction and X of 768 x 3072, four 768 x 768,
  // and a double for each row.
  EXPECT_EQ(get(with({"--threads", "2"}), 5, "memory_bytes_per_rank") - get(plain, 5, "memory_bytes_per_rank"),
            4 * (2 * 768 * 3072 + 4 * 768 * 768) + 8 * 768);
  // Of two 768 x 3072 in a batch: a direction, three X, four 768 x 768 and sums more; and what is known of three slots,
  // as many as 768 x 768 have.
  EXPECT_EQ(get(with({"--batches"}), 5, "memory_bytes_per_rank") - get(plain, 5, "memory_bytes_per_rank"),
            4 * (4 * 768 * 3072 + 4 * 768 * 768) + 8 * 768 + 3 * 96);
  EXPECT_GT(get(with({"--passes", "2"}), 0, "forward_ms"), 1.99 * get(plain, 0, "forward_ms"));
  EXPECT_GT(get(with({"--micro-batch", "4"}), 5, "forward_ms"), 3.99 * get(plain, 5, "forward_ms"));
  EXPECT_LT(get(with({"--seq-len", "256"}), 5, "forward_ms"), get(plain, 5, "forward_ms") / 3);
}

/// A stack machine's view of XML: tags that close in order, attributes in quotes. Text of a tag's content is free of
/// "<" and "&" but for entities.
bool is_well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t at = 0; (at = xml.find('<', at)) != std::string::npos;) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos || xml.find('<', at + 1) < end) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    at = end;
    if (tag.front() == '?') continue;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    if (tag.front() == '/') {
      if (open.empty() || open.back() != tag.substr(1)) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  for (std::size_t at = 0; (at = xml.find('&', at)) != std::string::npos; ++at) {
    const std::string entity = xml.substr(at, xml.find(';', at) - at);
    if (entity != "&amp" && entity != "&lt" && entity != "&gt" && entity != "&quot") return false;
  }
  return open.empty();
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; ++at)
    ++count;
  return count;
}

TEST(PlanMachines, a_picture_shows_owners_and_phases) {
  EXPECT_FALSE(is_well_formed("<a><b></a></b>"));
  EXPECT_FALSE(is_well_formed("<a>&</a>"));
  const std::string path = fresh_folder("plan-svg") + "/plan.svg";
  const auto small = run_plan({"--model", "gpt2:d2", "--ranks", "4", "--machine", "h200-node", "--svg", path});
  ASSERT_EQ(small.exit_code, 0) << small.err;
  const std::string svg = testing::read_file(path);
  EXPECT_TRUE(is_well_formed(svg)) << svg;
  EXPECT_EQ(svg.rfind("<?xml", 0), 0U);
  // Two blocks of four matrices on four ranks: a box for each; and three phases of each strategy.
  EXPECT_EQ(count_of(svg, " 1 matrix of "), 8U);
  EXPECT_EQ(count_of(svg, ": forward "), strategies.size());
  EXPECT_EQ(count_of(svg, ": optimizer "), strategies.size());
  for (const std::string& name : strategies)
    EXPECT_NE(svg.find(">" + name + "<"), std::string::npos) << name;
  for (const char* word : {"block.0", "block.1", "rank 3", "gpt2:d2 on 4 ranks", "Predicted step on h200-node"})
    EXPECT_NE(svg.find(word), std::string::npos) << word;
  // A large plan stays readable: at most 64 columns and 48 rows. Without a machine no bars.
  const auto large = run_plan({"--model", "llama:70b", "--ranks", "1000", "--svg", path});
  ASSERT_EQ(large.exit_code, 0) << large.err;
  const std::string wide = testing::read_file(path);
  EXPECT_TRUE(is_well_formed(wide));
  EXPECT_LE(count_of(wide, "<rect"), 64U * 48U + 1);
  EXPECT_EQ(wide.find("Predicted"), std::string::npos);
  EXPECT_LT(wide.size(), 1000000U);
}

TEST(PlanMachines, a_hundred_thousand_ranks) {
  const auto plan = plan_of({"--model", "gpt2:124m", "--ranks", "100000", "--nodes", "12500"});
  EXPECT_EQ(plan["ranks"].size(), 100000U);
  EXPECT_EQ(plan["spare_ranks"], 100000 - 48);
  const auto text = run_plan({"--model", "gpt2:124m", "--ranks", "100000"});
  EXPECT_NE(text.out.find("99952 spare ranks"), std::string::npos);
  EXPECT_LT(lines_of(text.out).size(), 60U) << "the table summarises";
  const auto predicted =
      run_plan({"--model", "gpt2:124m", "--ranks", "100000", "--nodes", "12500", "--machine", "a100-8x8", "--json"});
  ASSERT_EQ(predicted.exit_code, 0) << predicted.err;
  EXPECT_NE(predicted.err.find("matrix-fsdp alone"), std::string::npos) << predicted.err;
  EXPECT_EQ(nlohmann::json::parse(predicted.out)["predictions"].size(), 1U);
}

TEST(PlanMachines, a_slow_rank_gets_less) {
  const std::string path = fresh_folder("plan-measured") + "/run.jsonl";
  write_file(path, measured_run(2));
  const auto plan = plan_of({"--model", "gpt2:d4", "--ranks", "2", "--planner", "profile", "--profile", path});
  EXPECT_EQ(plan["planner"], "profile");
  // 4 x 0.9 s of work, of which rank 1 takes a third.
  EXPECT_NEAR(plan["ranks"][0]["seconds"].get<double>(), 2.4, 0.15);
  EXPECT_NEAR(plan["ranks"][1]["seconds"].get<double>(), 2.4, 0.15);
  EXPECT_NEAR(plan["ranks"][1]["flops"].get<double>() / plan["ranks"][0]["flops"].get<double>(), 0.5, 0.1);
  const auto other = run_plan({"--model", "gpt2:d4", "--ranks", "4", "--planner", "profile", "--profile", path});
  EXPECT_EQ(other.exit_code, 0);
  EXPECT_NE(other.err.find("measured on 2 ranks, not 4"), std::string::npos) << other.err;
  EXPECT_NE(other.out.find("matrices by measured times"), std::string::npos) << other.out;
}

}  // namespace
}  // namespace matrixfsdp

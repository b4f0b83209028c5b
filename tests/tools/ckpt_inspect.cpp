#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/schema/checksum.hpp>

#include "support/ckpt_program.hpp"
#include "support/golden_checkpoint.hpp"
#include "support/stored_checkpoint.hpp"

namespace matrixfsdp {
namespace {

using testing::checkpoint_model;
using testing::ckpt;
using testing::ckpt_json;
using testing::FormulaSource;
using testing::fresh_folder;
using testing::golden_folder;
using testing::read_file;
using testing::store_checkpoint;
using testing::stored_value;
using testing::write_file;

namespace fs = std::filesystem;

void flip(const std::string& path, std::size_t at) {
  std::string bytes = read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ 0x04);
  write_file(path, bytes);
}

/// Content and time of change of everything below a folder.
std::map<std::string, std::pair<std::string, fs::file_time_type>> state_of(const std::string& folder) {
  std::map<std::string, std::pair<std::string, fs::file_time_type>> state;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string content = entry.is_regular_file() ? read_file(entry.path().string()) : "";
    state[entry.path().string()] = {content, entry.last_write_time()};
  }
  return state;
}

/// Two steps; the first is that of `latest`.
std::string two_steps(const std::string& name) {
  const std::string folder = fresh_folder(name);
  store_checkpoint(folder + "/a", checkpoint_model(), 3, 7);
  store_checkpoint(folder + "/b", checkpoint_model(), 2, 12);
  fs::rename(folder + "/b/step_00000012", folder + "/a/step_00000012");
  return folder + "/a";
}

TEST(CkptLs, says_steps_sizes_loss_ranks_and_whether_they_are_valid) {
  const std::string folder = two_steps("ls");
  const auto good = ckpt_json({"ls", folder}, 0);
  EXPECT_EQ(good["latest"], "step_00000007");
  ASSERT_EQ(good["checkpoints"].size(), 2U);
  const auto& first = good["checkpoints"][0];
  EXPECT_EQ(first["step"], 7);
  EXPECT_EQ(first["loss"], 2.5);
  EXPECT_EQ(first["world_size"], 3);
  EXPECT_EQ(first["planner"], "balanced");
  EXPECT_EQ(first["valid"], true);
  EXPECT_EQ(first["elements"], element_count(checkpoint_model()));
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder + "/step_00000007"))
    bytes += entry.path().filename() == "manifest.json" ? 0 : entry.file_size();
  EXPECT_EQ(first["bytes"], bytes);

  const std::string file = folder + "/step_00000012/rank_00001.h5";
  flip(file, 3000);
  const auto bad = ckpt_json({"ls", folder}, 1);
  EXPECT_EQ(bad["checkpoints"][0]["valid"], true);
  EXPECT_EQ(bad["checkpoints"][1]["valid"], false);
  EXPECT_NE(bad["checkpoints"][1]["problem"].get<std::string>().find("damaged"), std::string::npos);
  EXPECT_EQ(ckpt_json({"ls", "--quick", folder}, 0)["checksums"], false) << "sizes fit";
  const auto text = ckpt({"ls", folder});
  EXPECT_EQ(text.exit_code, 1);
  for (const char* word : {"step_00000007", "2.5000", "valid", "NOT VALID", "rank_00001.h5"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
  fs::resize_file(file, fs::file_size(file) - 1);
  EXPECT_EQ(ckpt({"ls", "--quick", folder}).exit_code, 1);
  write_file(folder + "/step_00000012/manifest.json", "x");
  EXPECT_EQ(ckpt_json({"ls", folder}, 1)["checkpoints"][1]["bytes"], nullptr);
}

TEST(CkptShow, lists_every_tensor_with_its_owner) {
  const std::string step = golden_folder(2);
  const auto shown = ckpt_json({"show", step, "--stats", "--histogram"}, 0);
  EXPECT_EQ(shown["step"], 12);
  EXPECT_EQ(shown["sum_group"], 2);
  EXPECT_EQ(shown["configuration"]["lr"], 0.1);
  EXPECT_EQ(shown["tied"][0]["name"], "head");
  ASSERT_EQ(shown["tensors"].size(), 7U);
  const auto& up = shown["tensors"][0];
  EXPECT_EQ(up["parameter"], "up");
  EXPECT_EQ(up["kind"], "matrix");
  EXPECT_EQ(up["shape"], nlohmann::json({4, 3}));
  EXPECT_EQ(up["dtype"], "float32");
  EXPECT_EQ(up["bytes"], 48);
  EXPECT_EQ(up["ranks"], nlohmann::json({0}));
  const auto& momentum = shown["tensors"][1];
  EXPECT_EQ(momentum["optimizer"], "muon");
  double sum = 0;
  double squares = 0;
  for (int i = 0; i < 12; ++i) {
    const double value = testing::golden_value("up", "momentum", i);
    sum += value;
    squares += value * value;
  }
  EXPECT_EQ(momentum["statistics"]["min"], testing::golden_value("up", "momentum", 0));
  EXPECT_EQ(momentum["statistics"]["max"], testing::golden_value("up", "momentum", 11));
  EXPECT_DOUBLE_EQ(momentum["statistics"]["mean"], sum / 12);
  EXPECT_DOUBLE_EQ(momentum["statistics"]["norm"], std::sqrt(squares));
  EXPECT_EQ(momentum["statistics"]["non_finite"], 0);
  std::int64_t counted = 0;
  for (const auto& count : momentum["histogram"]["counts"])
    counted += count.get<std::int64_t>();
  EXPECT_EQ(counted, 12);
  EXPECT_EQ(momentum["histogram"]["edges"].size(), momentum["histogram"]["counts"].size() + 1);
  EXPECT_EQ(shown["tensors"][2]["segments"], 2) << "bias is cut";
  EXPECT_EQ(shown["tensors"][2]["ranks"], nlohmann::json({0, 1}));
  EXPECT_TRUE(shown["tensors"][6]["statistics"]["min"].is_null()) << "no elements";

  const auto some = ckpt_json({"show", fs::path(step).parent_path().string(), "b*"}, 0);
  EXPECT_EQ(some["tensors"].size(), 3U);
  EXPECT_FALSE(some["tensors"][0].contains("statistics"));
  const auto text = ckpt({"show", step, "--stats", "--histogram"});
  EXPECT_EQ(text.exit_code, 0);
  for (const char* word : {"up", "momentum", "(4, 3)", "matrix", "12.25", "####", "0,1", "another name of up"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
}

/// Values that the formula has not: one is not finite.
class BrokenSource : public FormulaSource {
 public:
  using FormulaSource::FormulaSource;
  void read(const ParameterSpec& parameter, const io::TensorKind& kind, std::span<std::byte> values) override {
    FormulaSource::read(parameter, kind, values);
    if (parameter.name != "norm" || kind.what != "weight") return;
    const std::vector<float> bad{std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()};
    std::memcpy(values.data() + 12, bad.data(), 8);
  }
};

TEST(CkptVerify, tells_every_problem) {
  const std::string folder = fresh_folder("verify");
  const std::string step = store_checkpoint(folder + "/a", checkpoint_model(), 3);
  write_file(step + "/notes.txt", "mine");
  const auto good = ckpt_json({"verify", step}, 0);
  EXPECT_EQ(good["valid"], true);
  EXPECT_EQ(good["files"], 4);
  EXPECT_EQ(good["foreign"], nlohmann::json({"notes.txt"}));
  EXPECT_EQ(good["non_finite"], 0);
  EXPECT_NE(ckpt({"verify", folder + "/a"}).out.find("every checksum fits"), std::string::npos);

  for (const char* file : {"/rank_00000.h5", "/rank_00002.h5", "/checkpoint.h5"})
    flip(step + file, 1000);
  const auto damaged = ckpt_json({"verify", step}, 1);
  EXPECT_EQ(damaged["problems"].size(), 3U);
  EXPECT_NE(damaged["problems"].dump().find("rank_00002.h5"), std::string::npos);
  fs::remove(step + "/rank_00001.h5");
  EXPECT_EQ(ckpt_json({"verify", step}, 1)["problems"].size(), 4U);
  fs::remove(step + "/manifest.json");
  EXPECT_EQ(ckpt_json({"verify", step}, 1)["valid"], false);
}

TEST(CkptVerify, values_must_be_finite) {
  const std::string folder = fresh_folder("finite");
  io::Manifest manifest;
  manifest.model = checkpoint_model();
  BrokenSource source(1);
  const std::string step = io::write_checkpoint(folder + "/a", manifest, make_plan(manifest.model, 2), source);
  const auto verdict = ckpt_json({"verify", step}, 1);
  EXPECT_EQ(verdict["non_finite"], 2);
  ASSERT_EQ(verdict["problems"].size(), 1U);
  EXPECT_EQ(verdict["problems"][0], "weight of 'norm': 2 values are not finite");
  const auto shown = ckpt_json({"show", step, "norm", "--stats", "--histogram"}, 0);
  EXPECT_EQ(shown["tensors"][0]["statistics"]["non_finite"], 2);
  EXPECT_LT(shown["tensors"][0]["statistics"]["max"].get<double>(), 2) << "of the finite ones";
  EXPECT_EQ(ckpt({"diff", step, step}).exit_code, 0) << "NaN has equal bits";
  EXPECT_EQ(ckpt({"diff", step, step, "--rtol", "1e-3"}).exit_code, 0);
}

/// One element of one tensor is another.
class ChangedSource : public FormulaSource {
 public:
  ChangedSource(std::string name, std::string what, float factor)
      : FormulaSource(1), name_(std::move(name)), what_(std::move(what)), factor_(factor) {}
  void read(const ParameterSpec& parameter, const io::TensorKind& kind, std::span<std::byte> values) override {
    FormulaSource::read(parameter, kind, values);
    if (parameter.name != name_ || kind.what != what_) return;
    const float changed = stored_value(1, name_, what_, 20) * factor_;
    std::memcpy(values.data() + 80, &changed, sizeof changed);
  }

 private:
  std::string name_;
  std::string what_;
  float factor_;
};

std::string store_changed(const std::string& folder, ChangedSource source, const ModelSpec& model, std::int64_t step) {
  io::Manifest manifest;
  manifest.state = {step, step - 1, 7, step, R"({"kind":"cosine"})", R"({"lr":0.1})"};
  manifest.state.loss = 2.5;
  manifest.model = model;
  return io::write_checkpoint(folder, manifest, make_plan(model, 2), source);
}

TEST(CkptDiff, exact_within_tolerances_and_all_state) {
  const std::string folder = fresh_folder("diff");
  const ModelSpec model = checkpoint_model();
  const std::string a = store_checkpoint(folder + "/a", model, 3);
  EXPECT_EQ(ckpt_json({"diff", "--all", a, store_checkpoint(folder + "/b", model, 1)}, 0)["same"], true)
      << "W is not part of it";

  const std::string weight = store_changed(folder + "/weight", {"block.1.up", "weight", 1.001F}, model, 12);
  const auto exact = ckpt_json({"diff", a, weight}, 1);
  int different = 0;
  for (const auto& tensor : exact["tensors"]) {
    if (tensor["same"] == true) continue;
    ++different;
    EXPECT_EQ(tensor["parameter"], "block.1.up");
    EXPECT_EQ(tensor["different"], 1);
    EXPECT_EQ(tensor["first"], 20);
    EXPECT_NEAR(tensor["largest_relative_difference"].get<double>(), 0.001, 1e-5);
  }
  EXPECT_EQ(different, 1);
  EXPECT_EQ(ckpt({"diff", a, weight, "--rtol", "0.0011"}).exit_code, 0);
  EXPECT_EQ(ckpt({"diff", a, weight, "--rtol", "0.0009"}).exit_code, 1);
  EXPECT_EQ(ckpt({"diff", a, weight, "--atol", "0.01"}).exit_code, 0);
  EXPECT_EQ(ckpt({"diff", a, weight, "--atol", "1e-6"}).exit_code, 1);

  const std::string state = store_changed(folder + "/state", {"table", "second_moment", 2.0F}, model, 12);
  EXPECT_EQ(ckpt({"diff", a, state}).exit_code, 0) << "parameters are equal";
  EXPECT_EQ(ckpt({"diff", a, state, "--all"}).exit_code, 1);
  const std::string later = store_changed(folder + "/later", {"none", "none", 1.0F}, model, 13);
  EXPECT_EQ(ckpt({"diff", a, later}).exit_code, 0);
  const auto fields = ckpt_json({"diff", a, later, "--all"}, 1)["state"];
  ASSERT_EQ(fields.size(), 3U);
  EXPECT_EQ(fields[0]["field"], "step");
  EXPECT_EQ(fields[0]["b"], 13);

  ModelSpec other = model;
  other.units[0].parameters[1].shape = {18};
  other.units[2].parameters.pop_back();
  other.units[0].parameters.push_back(testing::parameter("new", {3}));
  const auto structure = ckpt({"diff", a, store_checkpoint(folder + "/other", other, 2)});
  EXPECT_EQ(structure.exit_code, 1);
  for (const char* word : {"only in A", "only in B", "shape (17) and (18)", "DIFFERENT"})
    EXPECT_NE(structure.out.find(word), std::string::npos) << structure.out;
}

TEST(CkptProgram, never_writes_into_what_it_inspects) {
  const std::string folder = two_steps("untouched");
  const auto before = state_of(folder);
  const std::string step = folder + "/step_00000012";
  const std::string out = fresh_folder("untouched-out");
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"ls", folder},
                                             {"show", step, "--stats", "--histogram"},
                                             {"verify", step},
                                             {"diff", "--all", step, folder + "/step_00000007"},
                                             {"reshard", step, out + "/new", "--ranks", "5"},
                                             {"export", step, "--safetensors", out + "/file"}}) {
    EXPECT_LT(ckpt(arguments).exit_code, 2) << arguments[0];
    EXPECT_EQ(state_of(folder), before) << arguments[0];
  }
  EXPECT_EQ(ckpt({"reshard", step, folder, "--ranks", "5"}).exit_code, 2);
  EXPECT_EQ(ckpt({"reshard", step, step, "--ranks", "5"}).exit_code, 2);
  EXPECT_EQ(ckpt({"export", step, "--safetensors", step + "/manifest.json"}).exit_code, 2);
  EXPECT_EQ(state_of(folder), before);
}

}  // namespace
}  // namespace matrixfsdp

#include <functional>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/plan.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/manifest.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

#include "support/small_models.hpp"
#include "support/temporary_folder.hpp"

namespace matrixfsdp::io {
namespace {

using matrixfsdp::testing::mentions;
using matrixfsdp::testing::message_of;
using matrixfsdp::testing::parameter;

ModelSpec everything_model() {
  ModelSpec model = matrixfsdp::testing::small_model(2);
  ParameterSpec fused = parameter("fused", {12, 4});
  fused.kind = ParameterKind::matrix;
  fused.blocks = {0, {"query", "key", "value"}, {8, 2, 2}};
  fused.group = "slow";
  fused.initialization = {Initialization::Kind::normal, 0.1 + 0.2};
  model.units[0].parameters.push_back(fused);
  model.units[0].parameters.push_back(parameter("nothing", {0, 8}));
  model.groups.push_back({"slow", 1.0 / 3.0, 0.1});
  model.groups.push_back({"plain", 1.0, std::nullopt});
  model.tied.push_back({"head", "table"});
  return model;
}

/// A manifest of one file in which every parameter is whole, but "table" and its state are in two segments.
Manifest example() {
  Manifest manifest;
  manifest.state = {12, 11, 0xfedcba9876543210ULL, 12, R"({"kind":"cosine"})", R"({"lr":0.1,"nested":{"a":[1,2]}})"};
  manifest.state.sum_group = 4;
  manifest.state.loss = 1.0 / 3.0;
  manifest.model = everything_model();
  manifest.planner = "balanced";
  manifest.world_size = 3;
  manifest.files = {{"rank_00000.h5", 1000, 1}};
  const auto add = [&](const std::string& name, const std::string& what, std::int64_t k, Interval elements) {
    manifest.segments.push_back({name, what, "rank_00000.h5", dataset_path(name, what, k), elements, DType::float32,
                                 4 * elements.size(), 7, what == "weight" ? "" : "muon"});
  };
  for (const UnitSpec& unit : manifest.model.units) {
    for (const ParameterSpec& spec : unit.parameters) {
      const std::int64_t count = element_count(spec.shape);
      const std::int64_t cut = spec.name == "table" ? 4096 : count;
      const std::int64_t first = cut < count ? 0 : -1;
      add(spec.name, "weight", first, {0, cut});
      if (cut < count) add(spec.name, "weight", 1, {cut, count});
      if (spec.frozen || count == 0) continue;
      add(spec.name, "momentum", first, {0, cut});
      if (cut < count) add(spec.name, "momentum", 1, {cut, count});
    }
  }
  return manifest;
}

StoredSegment& segment(Manifest& manifest, const std::string& name, const std::string& what) {
  for (StoredSegment& candidate : manifest.segments) {
    if (candidate.parameter == name && candidate.what == what) return candidate;
  }
  throw ContractError("no such segment");
}

TEST(Manifest, ComesBackWhole) {
  const Manifest before = example();
  const std::string text = to_text(before);
  const Manifest after = parse_manifest(text, "m");
  EXPECT_EQ(to_text(after), text);
  EXPECT_EQ(hash_of(after.model), hash_of(before.model));
  EXPECT_EQ(after.state.step, 12);
  EXPECT_EQ(after.state.optimizer_steps, 11);
  EXPECT_EQ(after.state.seed, 0xfedcba9876543210ULL);
  EXPECT_EQ(after.state.data_step, 12);
  EXPECT_EQ(after.state.sum_group, 4);
  EXPECT_EQ(after.state.loss, 1.0 / 3.0);
  EXPECT_EQ(nlohmann::json::parse(after.state.schedule), nlohmann::json::parse(before.state.schedule));
  EXPECT_EQ(nlohmann::json::parse(after.state.configuration), nlohmann::json::parse(before.state.configuration));
  EXPECT_EQ(after.planner, "balanced");
  EXPECT_EQ(after.world_size, 3);
  EXPECT_FALSE(after.replicated);
  ASSERT_EQ(after.segments.size(), before.segments.size());
  EXPECT_EQ(after.segments[1].elements, (Interval{4096, 12910}));
  EXPECT_EQ(after.model.units[0].parameters[3].initialization.standard_deviation, 0.1 + 0.2);
  EXPECT_EQ(after.model.groups[0].learning_rate_scale, 1.0 / 3.0);
  EXPECT_EQ(after.model.groups[0].weight_decay, 0.1);
  EXPECT_FALSE(after.model.groups[1].weight_decay.has_value());
}

TEST(Manifest, PartsMakeTheSameTextInAnyOrder) {
  const Manifest whole = example();
  ManifestPart odd;
  ManifestPart even{whole.files, {}};
  for (std::size_t i = 0; i < whole.segments.size(); ++i)
    (i % 2 == 0 ? even : odd).segments.push_back(whole.segments[whole.segments.size() - 1 - i]);
  Manifest merged = whole;
  merged.files.clear();
  merged.segments.clear();
  add_parts(merged, {parse_manifest_part(to_text(odd)), parse_manifest_part(to_text(even))});
  Manifest sorted = whole;
  sorted.segments.clear();
  add_parts(sorted, {{{}, whole.segments}});
  EXPECT_EQ(to_text(merged), to_text(sorted));
}

TEST(Manifest, EveryChangedByteIsRefused) {
  const std::string text = to_text(example());
  for (std::size_t i = 0; i < text.size(); i += 1 + i % 7) {
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 0x01);
    EXPECT_THROW(parse_manifest(changed, "m"), IoError) << "byte " << i << " of " << text.substr(i, 20);
  }
  EXPECT_THROW(parse_manifest(text.substr(0, text.size() / 2), "m"), IoError);
  EXPECT_THROW(parse_manifest(text + " ", "m"), IoError);
  EXPECT_THROW(parse_manifest("", "m"), IoError);
}

/// The text with one change to its JSON, and a checksum that fits.
template <class Change>
std::string changed(const Change& change) {
  auto value = nlohmann::ordered_json::parse(to_text(example()));
  change(value);
  value["manifest_checksum"] = std::string(16, '0');
  const std::string text = value.dump(1) + "\n";
  value["manifest_checksum"] = checksum_text(checksum_of(std::as_bytes(std::span(text))));
  return value.dump(1) + "\n";
}

template <class Change>
std::string error_of(const Change& change) {
  return message_of<IoError>([&] { parse_manifest(changed(change), "m.json"); });
}

// What a JSON library does with these is not what a reader of checkpoints may do.
TEST(Manifest, TextThatIsJsonOnlyJustIsRefused) {
  const std::string text = to_text(example());
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string other = text;
    other.replace(other.find(from), from.size(), to);
    return message_of<IoError>([&] { parse_manifest(other, "m.json"); });
  };
  const std::string deep(100000, '[');
  EXPECT_TRUE(mentions(error("\"planner\": \"balanced\"", "\"planner\": " + deep), {"m.json", "nested"}));
  EXPECT_TRUE(mentions(error("\"planner\": ", "\"planner\": \"role\", \"planner\": "), {"m.json", "planner", "twice"}));
  EXPECT_TRUE(mentions(error("\"lr\": 0.1", "\"lr\": 1e999"), {"m.json", "1e999"}));
  EXPECT_TRUE(mentions(error("\"balanced\"", "\"\xff\""), {"m.json", "UTF-8"}));
}

TEST(Manifest, ReaderIsStrict) {
  using Json = nlohmann::ordered_json;
  EXPECT_EQ(to_text(parse_manifest(changed([](Json&) {}), "m")), to_text(example()));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["format"] = "other"; }), {"m.json", "format", "other", "matrixfsdp"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["format_version"] = 1; }), {"format_version", "1", "expected 2"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["extra"] = 1; }), {"extra", "unknown"}));
  for (const char* key :
       {"step", "optimizer_steps", "loss", "random", "data", "sum_group", "schedule", "configuration"}) {  // CASES 57
    EXPECT_TRUE(
        mentions(error_of([&](Json& m) { m["training"].erase(key); }), {std::string("training.") + key, "missing"}));
  }
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["training"]["step"] = -1; }), {"training.step", "-1", "from 0"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["training"]["step"] = 1.5; }), {"training.step", "1.5", "integer"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["training"]["step"] = 0xffffffffffffffffULL; }), {"training.step"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["training"]["random"]["seed"] = -3; }), {"random.seed", "-3"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["plan"]["world_size"] = 0; }), {"plan.world_size", "0"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["segments"][3]["end"] = "x"; }), {"segments[3].end", "x", "integer"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["segments"][3]["dtype"] = "int8"; }), {"segments[3].dtype", "int8"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["segments"][0]["checksum"] = "12"; }), {"segments[0].checksum", "12"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["files"] = Json::object(); }), {"files", "array"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["model"]["units"][0]["parameters"][0]["shape"][0] = -5; }),
                       {"model.units[0].parameters[0].shape[0]", "-5"}));
  EXPECT_TRUE(mentions(error_of([](Json& m) { m["model"]["units"][0]["parameters"][0]["kind"] = "vector"; }),
                       {"parameters[0].kind", "vector", "expected matrix or tail"}));
  EXPECT_TRUE(
      mentions(error_of([](Json& m) { m["model"]["units"][0]["parameters"][0]["initialization"]["kind"] = "uniform"; }),
               {"m.json", "parameters[0].initialization.kind", "uniform", "expected zeros, ones or normal"}));
}

std::string invalid(const std::function<void(Manifest&)>& change) {
  Manifest manifest = example();
  change(manifest);
  return message_of<IoError>([&] { validate(manifest, "m.json"); });
}

TEST(Manifest, CoverageIsExactCase51) {
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.segments.erase(m.segments.begin()); }),
                       {"weight of 'table'", "[0, 4096)", "missing"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.segments.erase(m.segments.begin() + 1); }),
                       {"weight of 'table'", "[4096, 12910)", "missing"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) {
                         m.segments[1].elements.begin = 4000;
                         m.segments[1].bytes = 4 * m.segments[1].elements.size();
                       }),
                       {"weight of 'table'", "[4000, 4096)", "twice"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) {
                         std::erase_if(m.segments, [](const StoredSegment& s) {
                           return s.parameter == "norm" && s.what == "weight";
                         });
                       }),
                       {"weight of 'norm'", "missing"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) {
                         std::erase_if(m.segments, [](const StoredSegment& s) { return s.parameter == "nothing"; });
                       }),
                       {"weight of 'nothing'", "missing"}));
}

TEST(Manifest, SegmentsFitTheModelAndTheFiles) {
  EXPECT_TRUE(
      mentions(invalid([](Manifest& m) { segment(m, "norm", "weight").parameter = "nowhere"; }), {"'nowhere'"}));
  EXPECT_TRUE(
      mentions(invalid([](Manifest& m) { segment(m, "norm", "weight").elements.end = 18; }), {"'norm'", "18", "17"}));
  EXPECT_TRUE(
      mentions(invalid([](Manifest& m) { segment(m, "norm", "weight").bytes = 17; }), {"'norm'", "17 bytes", "68"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { segment(m, "norm", "weight").file = "x.h5"; }), {"'norm'", "'x.h5'"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.segments[0].dataset = m.segments[1].dataset; }), {"listed twice"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.files.push_back(m.files[0]); }), {"rank_00000.h5", "twice"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.files.push_back({"../x", 1, 1}); }), {"'../x'"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) {
                         StoredSegment extra = segment(m, "scale", "weight");
                         extra.what = "momentum";
                         extra.optimizer = "muon";
                         extra.dataset = "/new";
                         m.segments.push_back(extra);
                       }),
                       {"'scale'", "frozen"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { segment(m, "norm", "weight").dataset = "/parameters/other"; }),
                       {"weight of 'norm'", "'/parameters/other'", "expected '/parameters/norm'"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.segments[1].dataset = "/parameters/table/segment.2"; }),
                       {"weight of 'table'", "segment.2", "expected '/parameters/table/segment.1'"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { segment(m, "norm", "momentum").optimizer = ""; }),
                       {"momentum of 'norm'", "optimizer ''"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { segment(m, "norm", "weight").optimizer = "muon"; }),
                       {"weight of 'norm'", "optimizer 'muon'"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { segment(m, "table", "momentum").optimizer = "adamw"; }),
                       {"momentum of 'table'", "adamw", "muon", "alike"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.state.sum_group = 0; }), {"sum group 0"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.state.configuration = "[]"; }), {"configuration", "JSON object"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.state.optimizer_steps = 13; }), {"13", "steps"}));
  EXPECT_TRUE(mentions(invalid([](Manifest& m) { m.model.tied[0].target = "nowhere"; }), {"model", "nowhere"}));
}

}  // namespace
}  // namespace matrixfsdp::io

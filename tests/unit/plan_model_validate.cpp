#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/model_spec.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

using test::parameter;

ModelSpec valid_model() {
  ModelSpec model;
  model.units.push_back({"root", {test::embedding("table", {100, 8}), parameter("norm", {8})}, true});
  model.units.push_back({"block.0", {parameter("qkv", {12, 4}), test::frozen("w", {4, 4})}, false});
  model.units[1].parameters[0].blocks = {0, {"q", "k", "v"}, {4, 4, 4}};
  model.units[1].parameters[0].group = "slow";
  model.groups.push_back({"slow", 0.5, 0.1});
  model.tied.push_back({"head", "table"});
  return model;
}

struct Fault {
  std::string name;
  std::function<void(ModelSpec&)> make;
  std::vector<std::string> said;  ///< the message names the thing and the value
};

ParameterSpec& qkv(ModelSpec& model) {
  return model.units[1].parameters[0];
}

const std::vector<Fault>& faults() {
  static const std::vector<Fault> all{
      {"empty_parameter_name", [](ModelSpec& m) { qkv(m).name = ""; }, {"parameter", "empty"}},
      {"slash", [](ModelSpec& m) { qkv(m).name = "a/b"; }, {"a/b", "'/'"}},
      {"slash_in_unit", [](ModelSpec& m) { m.units[0].name = "x/"; }, {"unit", "x/"}},
      {"same_name_in_two_units", [](ModelSpec& m) { qkv(m).name = "norm"; }, {"norm", "unique"}},
      {"same_unit", [](ModelSpec& m) { m.units[1].name = "root"; }, {"unit", "root", "unique"}},
      {"negative_extent",
       [](ModelSpec& m) {
         m.units[1].parameters[1].shape = {4, -4};
       },
       {"w", "(4, -4)"}},
      {"overflow",
       [](ModelSpec& m) {
         m.units[1].parameters[1].shape = {1LL << 40, 1LL << 40};
       },
       {"w", "2^62"}},
      {"too_many_elements",
       [](ModelSpec& m) {
         m.units[1].parameters[1].shape = {1LL << 29, 1LL << 29};
       },
       {"w", "2^58"}},
      {"block_axis", [](ModelSpec& m) { qkv(m).blocks.axis = 2; }, {"qkv", "axis 2"}},
      {"block_names", [](ModelSpec& m) { qkv(m).blocks.names.pop_back(); }, {"qkv", "2", "3"}},
      {"block_names_alone", [](ModelSpec& m) { qkv(m).blocks.sizes.clear(); }, {"qkv", "3", "0"}},
      {"block_name_twice", [](ModelSpec& m) { qkv(m).blocks.names[2] = "q"; }, {"qkv", "'q'"}},
      {"block_size_zero",
       [](ModelSpec& m) {
         qkv(m).blocks.sizes = {12, 0, 0};
       },
       {"qkv", "size 0"}},
      {"block_sum",
       [](ModelSpec& m) {
         qkv(m).blocks.sizes = {4, 4, 3};
       },
       {"qkv", "4 + 4 + 3", "12"}},
      {"blocks_of_a_tail",
       [](ModelSpec& m) {
         m.units[0].parameters[1].blocks = {0, {"all"}, {1}};
       },
       {"norm", "tail", "(8)"}},
      {"unknown_group", [](ModelSpec& m) { qkv(m).group = "fast"; }, {"qkv", "fast"}},
      {"group_twice",
       [](ModelSpec& m) {
         m.groups.push_back({"slow", 1.0, {}});
       },
       {"group", "slow"}},
      {"group_scale", [](ModelSpec& m) { m.groups[0].learning_rate_scale = -1; }, {"slow", "-1"}},
      {"group_decay", [](ModelSpec& m) { m.groups[0].weight_decay = NAN; }, {"slow", "nan"}},
      {"deviation", [](ModelSpec& m) { qkv(m).initialization.standard_deviation = INFINITY; }, {"qkv", "inf"}},
      {"tied_to_nothing", [](ModelSpec& m) { m.tied[0].target = "tables"; }, {"head", "tables"}},
      {"tied_to_an_alias",
       [](ModelSpec& m) {
         m.tied.push_back({"second", "head"});
       },
       {"second", "head"}},
      {"tied_name_taken", [](ModelSpec& m) { m.tied[0].name = "norm"; }, {"tied", "norm"}},
      {"tied_twice",
       [](ModelSpec& m) {
         m.tied.push_back({"head", "norm"});
       },
       {"tied", "head"}},
      {"tied_without_name", [](ModelSpec& m) { m.tied[0].name = ""; }, {"tied"}},
  };
  return all;
}

// CASES 12, 13, 16 among them.
TEST(ModelValidation, every_fault_is_named) {
  EXPECT_NO_THROW(validate(valid_model()));
  EXPECT_NO_THROW(validate(ModelSpec{}));
  for (const Fault& fault : faults()) {
    ModelSpec model = valid_model();
    fault.make(model);
    const std::string message = test::message_of<InputError>([&] { validate(model); });
    for (const std::string& said : fault.said)
      EXPECT_NE(message.find(said), std::string::npos) << fault.name << ": " << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << fault.name;
  }
}

// CASES 16: a tied embedding is one parameter with two names.
TEST(ModelValidation, a_second_name_adds_no_parameter) {
  ModelSpec model = valid_model();
  const std::int64_t elements = element_count(model);
  model.tied.push_back({"another", "table"});
  EXPECT_NO_THROW(validate(model));
  EXPECT_EQ(element_count(model), elements);
}

TEST(ModelHash, everything_that_the_model_says_counts) {
  const std::vector<std::function<void(ModelSpec&)>> changes{
      [](ModelSpec&) {},
      [](ModelSpec& m) { m.units[0].name = "rood"; },
      [](ModelSpec& m) { m.units[0].keep = false; },
      [](ModelSpec& m) { qkv(m).name = "qk"; },
      [](ModelSpec& m) {
        qkv(m).shape = {4, 12};
      },
      [](ModelSpec& m) {
        qkv(m).shape = {12, 4, 1};
      },
      [](ModelSpec& m) { qkv(m).kind = ParameterKind::matrix; },
      [](ModelSpec& m) { qkv(m).kind = ParameterKind::tail; },
      [](ModelSpec& m) { qkv(m).embedding = true; },
      [](ModelSpec& m) { qkv(m).frozen = true; },
      [](ModelSpec& m) { qkv(m).blocks.axis = 1; },
      [](ModelSpec& m) {
        qkv(m).blocks.sizes = {4, 5, 3};
      },
      [](ModelSpec& m) {
        qkv(m).blocks.names = {"q", "v", "k"};
      },
      [](ModelSpec& m) {
        qkv(m).blocks.names = {"qk", "", "v"};
      },
      [](ModelSpec& m) { qkv(m).group = ""; },
      [](ModelSpec& m) { qkv(m).initialization.kind = Initialization::Kind::zeros; },
      [](ModelSpec& m) { qkv(m).initialization.standard_deviation = 0.03; },
      [](ModelSpec& m) { std::swap(m.units[1].parameters[0], m.units[1].parameters[1]); },
      [](ModelSpec& m) { std::swap(m.units[0], m.units[1]); },
      [](ModelSpec& m) { m.units.pop_back(); },
      [](ModelSpec& m) { m.tied[0].target = "norm"; },
      [](ModelSpec& m) { m.tied.clear(); },
      [](ModelSpec& m) { m.groups[0].learning_rate_scale = 0.25; },
      [](ModelSpec& m) { m.groups[0].weight_decay = 0.0; },
      [](ModelSpec& m) { m.groups[0].weight_decay.reset(); },
  };
  std::set<std::uint64_t> hashes;
  for (const auto& change : changes) {
    ModelSpec model = valid_model();
    change(model);
    hashes.insert(hash_of(model));
    EXPECT_EQ(hash_of(model), hash_of(ModelSpec(model)));
  }
  EXPECT_EQ(hashes.size(), changes.size());
}

}  // namespace
}  // namespace matrixfsdp

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/planner.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

using test::parameter;

/// Two units: a cut table, a frozen vector, and matrices on each of three ranks.
ModelSpec sample_model() {
  ModelSpec model;
  model.units.push_back({"root", {test::embedding("table", {6, 4096}), test::frozen("fixed", {9})}, true});
  model.units.push_back({"block",
                         {parameter("a", {8, 8}), parameter("b", {6, 6}), parameter("c", {4, 4}),
                          parameter("bias", {8}), parameter("none", {0, 8})},
                         false});
  return model;
}

struct Damage {
  std::string name;
  std::function<void(Plan&)> make;
};

MatrixShard& block(Plan& plan) {
  return plan.units[1].weights;
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all{
      {"no ranks", [](Plan& p) { p.world_size = 0; }},
      {"other world size", [](Plan& p) { p.world_size = 4; }},
      {"unit missing", [](Plan& p) { p.units.pop_back(); }},
      {"unit too many", [](Plan& p) { p.units.push_back(p.units[0]); }},
      {"units swapped", [](Plan& p) { std::swap(p.units[0], p.units[1]); }},
      {"buffer too large", [](Plan& p) { ++block(p).size; }},
      {"buffer too small", [](Plan& p) { --block(p).size; }},
      {"segment missing", [](Plan& p) { block(p).segments.pop_back(); }},
      {"first segment missing", [](Plan& p) { block(p).segments.erase(block(p).segments.begin()); }},
      {"segment twice", [](Plan& p) { block(p).segments.push_back(block(p).segments.back()); }},
      {"segments out of order", [](Plan& p) { std::swap(block(p).segments[0], block(p).segments[1]); }},
      {"empty segment",
       [](Plan& p) {
         block(p).segments.insert(block(p).segments.begin(), Segment{0, {0, 0}, 0, 0});
       }},
      {"elements beyond the parameter", [](Plan& p) { ++block(p).segments[0].elements.end; }},
      {"elements before the parameter", [](Plan& p) { --block(p).segments[0].elements.begin; }},
      {"other parameter", [](Plan& p) { block(p).segments[0].parameter = 1; }},
      {"no such parameter", [](Plan& p) { block(p).segments[0].parameter = 99; }},
      {"a higher rank",
       [](Plan& p) {
         for (MatrixShard* shard : {&p.units[1].weights, &p.units[1].gradients})
           shard->segments[0].rank = 2;
       }},
      {"a lower rank",
       [](Plan& p) {
         for (MatrixShard* shard : {&p.units[1].weights, &p.units[1].gradients})
           shard->segments[2].rank = 0;
       }},
      {"rank of the weights only", [](Plan& p) { block(p).segments[0].rank = 1; }},
      {"no such rank", [](Plan& p) { block(p).segments[0].rank = 3; }},
      {"negative rank", [](Plan& p) { block(p).segments[0].rank = -1; }},
      {"segment elsewhere", [](Plan& p) { ++block(p).segments[1].offset; }},
      {"parameter offset", [](Plan& p) { ++block(p).parameter_offsets[0]; }},
      {"parameter offset out of bounds", [](Plan& p) { block(p).parameter_offsets[0] = block(p).size; }},
      {"offset of an empty parameter out of bounds",
       [](Plan& p) { block(p).parameter_offsets[4] = block(p).size + 1; }},
      {"parameter left out", [](Plan& p) { block(p).parameter_offsets[3] = -1; }},
      {"offset missing", [](Plan& p) { block(p).parameter_offsets.pop_back(); }},
      {"owned interval missing", [](Plan& p) { block(p).owned.pop_back(); }},
      {"tail interval missing", [](Plan& p) { block(p).tails.pop_back(); }},
      {"gap between intervals", [](Plan& p) { --block(p).owned[0].end; }},
      {"overlap of intervals", [](Plan& p) { ++block(p).owned[0].end; }},
      {"interval backwards",
       [](Plan& p) {
         block(p).owned[1] = {block(p).owned[0].end, block(p).owned[0].end - 1};
       }},
      {"interval beyond the buffer", [](Plan& p) { ++block(p).tails[2].end; }},
      {"intervals of two ranks exchanged", [](Plan& p) { std::swap(block(p).owned[0], block(p).owned[1]); }},
      {"a matrix in the tail region",
       [](Plan& p) {
         for (MatrixShard* shard : {&p.units[1].weights, &p.units[1].gradients}) {
           shard->owned = {{0, 0}, {0, 0}, {0, 0}};
           shard->tails = {{0, shard->size}, {shard->size, shard->size}, {shard->size, shard->size}};
           for (Segment& segment : shard->segments)
             segment.rank = 0;
         }
       }},
      {"a matrix on two ranks",
       [](Plan& p) {
         for (MatrixShard* shard : {&p.units[1].weights, &p.units[1].gradients}) {
           // The first segment is all of a matrix on rank 0: its second half goes to rank 1.
           const Segment whole = shard->segments[0];
           const std::int64_t half = whole.elements.end / 2;
           shard->segments[0].elements.end = half;
           shard->segments.insert(shard->segments.begin() + 1,
                                  Segment{whole.parameter, {half, whole.elements.end}, 1, whole.offset + half});
           shard->owned[0].end = shard->owned[1].begin = half;
         }
       }},
      {"a tail cut inside a norm block",
       [](Plan& p) {
         for (MatrixShard* shard : {&p.units[0].weights, &p.units[0].gradients}) {
           ++shard->segments[0].elements.end;
           ++shard->segments[1].elements.begin;
           ++shard->segments[1].offset;
           ++shard->tails[0].end;
           ++shard->tails[1].begin;
         }
       }},
      {"weights and gradients cut differently",
       [](Plan& p) {
         MatrixShard& shard = p.units[0].weights;
         shard.segments[0].elements.end += norm_block;
         shard.segments[1].elements.begin += norm_block;
         shard.segments[1].offset += norm_block;
         shard.tails[0].end += norm_block;
         shard.tails[1].begin += norm_block;
       }},
      {"a frozen parameter among the gradients", [](Plan& p) { p.units[0].gradients = p.units[0].weights; }},
      {"a frozen parameter's offset", [](Plan& p) { p.units[0].gradients.parameter_offsets[1] = 0; }},
      {"gradients missing", [](Plan& p) { p.units[1].gradients = {}; }},
      {"not the chunks of a replicated plan", [](Plan& p) { p.replicated = true; }},
  };
  return all;
}

// CASES 51: coverage and bounds are checked before anything is written or read.
TEST(PlanValidation, every_damage_is_found) {
  const ModelSpec model = sample_model();
  PlannerOptions options;
  options.tails = TailPlacement::spread;
  const Plan plan = make_plan(model, 3, options);
  ASSERT_EQ(plan.units[0].weights.tails[0].size(), 2 * norm_block) << "the table is cut";
  ASSERT_EQ(plan.units[1].weights.segments[0].rank, 0);
  EXPECT_NO_THROW(validate(model, plan));
  for (const Damage& damage : damages()) {
    Plan damaged = plan;
    damage.make(damaged);
    EXPECT_THROW(validate(model, damaged), ContractError) << damage.name;
    EXPECT_NE(hash_of(damaged), hash_of(plan)) << damage.name;
  }
}

TEST(PlanValidation, the_message_names_unit_buffer_and_both_values) {
  const ModelSpec model = sample_model();
  Plan plan = make_plan(model, 3);
  plan.units[1].gradients.size += 5;
  const std::string message = test::message_of<ContractError>([&] { validate(model, plan); });
  const std::string size = std::to_string(64 + 36 + 16 + 8);
  for (const std::string& said : {std::string("block"), std::string("gradients"), std::to_string(129), size})
    EXPECT_NE(message.find(said), std::string::npos) << message;
}

TEST(PlanValidation, a_plan_of_another_model_is_refused) {
  const ModelSpec model = sample_model();
  const Plan plan = make_plan(model, 3);
  ModelSpec other = model;
  other.units[1].parameters[0].shape = {8, 9};
  EXPECT_THROW(validate(other, plan), ContractError);
  other = model;
  other.units[0].parameters[1].frozen = false;
  EXPECT_THROW(validate(other, plan), ContractError);
}

TEST(PlanValidation, damage_of_a_replicated_plan) {
  const ModelSpec model = sample_model();
  const Plan plan = make_replicated_plan(model, 3);
  EXPECT_NO_THROW(validate(model, plan));
  Plan damaged = plan;
  ++damaged.units[0].weights.owned[0].end;
  ++damaged.units[0].weights.owned[1].begin;
  EXPECT_THROW(validate(model, damaged), ContractError);
  damaged = plan;
  for (UnitPlan& unit : damaged.units) {
    for (MatrixShard* shard : {&unit.weights, &unit.gradients}) {  // consistent, but not the even cut
      const Interval rest{shard->size, shard->size};
      shard->owned = {{0, shard->size}, rest, rest};
      for (Segment& segment : shard->segments)
        segment.rank = 0;
    }
  }
  EXPECT_THROW(validate(model, damaged), ContractError);
  damaged = plan;
  damaged.replicated = false;
  EXPECT_THROW(validate(model, damaged), ContractError);
  damaged = plan;
  damaged.units[0].weights.segments.pop_back();
  EXPECT_THROW(validate(model, damaged), ContractError);
}

}  // namespace
}  // namespace matrixfsdp

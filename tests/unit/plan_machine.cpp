#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/machine.hpp>

#include "support/messages.hpp"

namespace matrixfsdp {
namespace {

TEST(PlanMachine, presets_are_what_their_names_say) {
  for (const std::string& name : machine_preset_names()) {
    const Machine machine = machine_preset(name);
    EXPECT_EQ(machine.name, name);
    EXPECT_NO_THROW(validate(machine)) << name;
  }
  const Machine a100 = machine_preset("a100-8x8");
  EXPECT_EQ(a100.ranks(), 64);
  // The published 8-node figures: 8.8 kFLOP for each byte.
  EXPECT_NEAR(a100.orthogonalize_flops_per_second / a100.between.bytes_per_second, 8.8e3, 100);
  EXPECT_EQ(machine_preset("h200-node").ranks(), 8);
  const std::string message = test::message_of<InputError>([] { machine_preset("b300"); });
  for (const char* word : {"b300", "a100-8x8", "h200-node"})
    EXPECT_NE(message.find(word), std::string::npos) << message;
}

TEST(PlanMachine, slow_ranks_keep_their_factor) {
  Machine machine = machine_preset("a100-8x8");
  machine.slow_ranks = {{3, 1.5}, {40, 2}};
  EXPECT_EQ(machine.slowness(3), 1.5);
  EXPECT_EQ(machine.slowness(40), 2);
  for (const int rank : {0, 2, 4, 39, 41, 63})
    EXPECT_EQ(machine.slowness(rank), 1) << rank;
  const Machine two = resized(machine, 2, 8);
  EXPECT_EQ(two.ranks(), 16);
  ASSERT_EQ(two.slow_ranks.size(), 1U) << "rank 40 is gone";
  EXPECT_EQ(two.slowness(3), 1.5);
  EXPECT_EQ(two.between.bytes_per_second, machine.between.bytes_per_second);
}

TEST(PlanMachine, links_are_those_of_a_calibration) {
  Machine machine = machine_preset("a100-8x8");
  machine.inside = {1e-6, 4e9, 16e9};
  machine.between = {3e-6, 2e9, 8e9};
  const CollectiveProfile profile = collective_profile(machine);
  EXPECT_EQ(profile.world_size, 64);
  EXPECT_EQ(profile.nodes, 8);
  EXPECT_EQ(profile.inside->alpha_seconds, 1e-6);
  EXPECT_EQ(profile.inside->beta_seconds_per_byte, 1 / 4e9);
  EXPECT_EQ(profile.between->node_beta_seconds_per_byte, 1 / 8e9);
  EXPECT_EQ(profile.between->all_beta_seconds_per_byte, 1 / 8e9);
  EXPECT_EQ(profile.between->contention, 1);
  EXPECT_NO_THROW(validate(profile));
}

TEST(PlanMachine, what_is_wrong_is_named) {
  struct Case {
    void (*damage)(Machine&);
    std::vector<std::string> said;
  };
  const std::vector<Case> cases = {
      {[](Machine& m) { m.nodes = 0; }, {"nodes 0", "at least 1"}},
      {[](Machine& m) { m.ranks_per_node = -1; }, {"ranks_per_node -1"}},
      {[](Machine& m) { m.inside.latency_seconds = -1; }, {"inside.latency_seconds -1", "0 or more"}},
      {[](Machine& m) { m.between.bytes_per_second = 0; }, {"between.bytes_per_second 0", "above 0"}},
      {[](Machine& m) { m.between.node_bytes_per_second = std::numeric_limits<double>::quiet_NaN(); },
       {"between.node_bytes_per_second nan"}},
      {[](Machine& m) { m.gemm_flops_per_second = std::numeric_limits<double>::infinity(); },
       {"gemm_flops_per_second inf"}},
      {[](Machine& m) { m.orthogonalize_flops_per_second = -5; }, {"orthogonalize_flops_per_second -5"}},
      {[](Machine& m) { m.memory_bytes = 0; }, {"memory_bytes 0"}},
      {[](Machine& m) { m.memory_bytes_per_second = 0; }, {"memory_bytes_per_second 0"}},
      {[](Machine& m) {
         m.slow_ranks = {{64, 2}};
       },
       {"slow rank 64", "0 to 63"}},
      {[](Machine& m) {
         m.slow_ranks = {{5, 2}, {5, 3}};
       },
       {"slow rank 5", "ascending"}},
      {[](Machine& m) {
         m.slow_ranks = {{5, 0.5}};
       },
       {"factor 0.5", "rank 5", "at least 1"}},
  };
  for (const Case& one : cases) {
    Machine machine = machine_preset("a100-8x8");
    one.damage(machine);
    const std::string message = test::message_of<InputError>([&] { validate(machine); });
    for (const std::string& word : one.said)
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
    EXPECT_THROW(collective_profile(machine), InputError);
  }
}

}  // namespace
}  // namespace matrixfsdp

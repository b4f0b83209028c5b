#include <algorithm>
#include <stdexcept>

#include "support/property_check.hpp"

// That a property which fails is found, told alike on every rank, and made small.
namespace matrixfsdp {
namespace {

using testing::PropertyCase;

bool has_a_long_matrix(const PropertyCase& sample) {
  for (const UnitSpec& unit : sample.model.units) {
    for (const ParameterSpec& spec : unit.parameters) {
      if (kind_of(spec) == ParameterKind::matrix && matrix_extents(spec.shape).rows >= 10) return true;
    }
  }
  return false;
}

TEST(PropertyHarness, shrinks_to_the_smallest_case_that_fails) {
  int found = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PropertyCase sample = testing::draw_case(seed, 8);
    if (!has_a_long_matrix(sample)) continue;
    ++found;
    const PropertyCase smallest = testing::shrink(sample, has_a_long_matrix, 5000);
    ASSERT_EQ(smallest.model.units.size(), 1U) << describe(smallest);
    ASSERT_EQ(smallest.model.units[0].parameters.size(), 1U) << describe(smallest);
    EXPECT_EQ(matrix_extents(smallest.model.units[0].parameters[0].shape).rows, 10) << describe(smallest);
    EXPECT_EQ(smallest.ranks, 1);
    EXPECT_EQ(smallest.steps, 1);
    EXPECT_EQ(smallest.prefetch, 0);
    EXPECT_NO_THROW(validate(smallest.model));
  }
  EXPECT_GE(found, 10);
}

TEST(PropertyHarness, a_case_is_a_function_of_its_seed_and_every_smaller_one_is_valid) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const PropertyCase sample = testing::draw_case(seed, 4);
    EXPECT_EQ(describe(sample), describe(testing::draw_case(seed, 4)));
    for (const PropertyCase& smaller : testing::smaller_cases(sample)) {
      EXPECT_NO_THROW(validate(smaller.model)) << describe(smaller);
      EXPECT_LE(element_count(smaller.model), element_count(sample.model));
      EXPECT_LE(smaller.ranks, sample.ranks);
    }
  }
}

TEST(PropertyHarness, a_failure_on_any_rank_is_one_on_every_rank) {
  testing::PropertyWorlds worlds;
  PropertyCase sample = testing::draw_case(1, 1);
  sample.ranks = testing::world().size();
  const int last = sample.ranks - 1;
  const auto returned = [last](const PropertyCase&, Communicator& ranks, Communicator&) {
    return ranks.rank() == last ? std::string("broken") : std::string();
  };
  EXPECT_EQ(failure_of(worlds, returned, sample), fmt::format("rank {}: broken", last));
  const auto thrown = [last](const PropertyCase&, Communicator& ranks, Communicator& alone) -> std::string {
    if (ranks.rank() == last) throw std::runtime_error("thrown");
    return alone.size() == 1 ? "" : "not alone";
  };
  EXPECT_EQ(failure_of(worlds, thrown, sample), fmt::format("rank {}: thrown", last));
  const auto fine = [](const PropertyCase& c, Communicator& ranks, Communicator&) {
    return ranks.size() == c.ranks ? std::string() : std::string("another world");
  };
  for (int ranks = 1; ranks <= testing::world().size(); ++ranks) {
    sample.ranks = ranks;
    EXPECT_EQ(failure_of(worlds, fine, sample), "");
  }
}

}  // namespace
}  // namespace matrixfsdp

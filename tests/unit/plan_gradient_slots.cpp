#include <deque>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/plan/gradient_slots.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>

#include "support/small_models.hpp"

namespace matrixfsdp {
namespace {

/// Straight from the plan's segments.
std::int64_t landed_elements(const Plan& plan, std::size_t unit, int rank) {
  std::int64_t elements = 0;
  for (const Segment& segment : plan.units[unit].gradients.segments)
    elements += segment.rank == rank ? segment.elements.size() : 0;
  return elements;
}

// From the last unit to the first: what is in flight, and the one that is stepped, have different slots of their size.
TEST(PlanGradientSlots, units_in_flight_never_share_one) {
  for (const std::int64_t blocks : {0, 1, 4, 7}) {
    const ModelSpec model = testing::small_model(blocks);
    for (const int ranks : {1, 2, 3}) {
      const Plan plan = make_plan(model, ranks);
      for (const std::int64_t in_flight : {0, 1, 2, 9}) {
        for (int rank = 0; rank < ranks; ++rank) {
          const std::vector<std::int64_t> slots = gradient_slots(plan, rank, in_flight);
          EXPECT_LE(slots.size(), static_cast<std::size_t>(in_flight) + 1);
          std::vector<std::int64_t> most(slots.size(), 0);
          std::deque<std::size_t> held;
          for (std::size_t unit = plan.units.size(); unit-- > 0;) {
            const std::size_t slot = gradient_slot(unit, plan.units.size(), in_flight);
            ASSERT_LT(slot, slots.size());
            for (const std::size_t other : held)
              EXPECT_NE(other, slot) << "unit " << unit << " of " << plan.units.size();
            held.push_back(slot);
            if (held.size() > static_cast<std::size_t>(in_flight)) held.pop_front();
            most[slot] = std::max(most[slot], landed_elements(plan, unit, rank));
          }
          EXPECT_EQ(slots, most);
        }
      }
    }
  }
}

// By hand: the table of 12910, its norm of 17; blocks of 126 + 126 + 25 + 18. Two slots, root and block 1, block 0 and
// block 2.
TEST(PlanGradientSlots, the_report_counts_them) {
  const ModelSpec model = testing::small_model(3);
  const Plan plan = make_plan(model, 1);
  MemoryOptions options;
  options.replicas = 2;  // reduces travel
  const RankLoad all = report(model, plan, options).ranks[0];
  EXPECT_EQ(all.gradient_bytes, 4 * (12927 + 3 * 295));
  options.step_in_backward = true;
  const RankLoad load = report(model, plan, options).ranks[0];
  EXPECT_EQ(load.gradient_bytes, 4 * (12927 + 295));
  EXPECT_EQ(all.owned_bytes - load.owned_bytes, 4 * 2 * 295);
  EXPECT_EQ(report(model, plan, options).imbalance_bytes, 1.0);
  options.reduces_in_flight = 0;
  EXPECT_EQ(report(model, plan, options).ranks[0].gradient_bytes, 4 * 12927);
  options.passes = 2;  // all hold sums between passes
  EXPECT_EQ(report(model, plan, options).ranks[0].gradient_bytes, all.gradient_bytes);
  options.unsharded_accumulation = true;
  EXPECT_EQ(report(model, plan, options).ranks[0].gradient_bytes, 4 * 12927);
  options.replicas = 1;  // nothing travels
  options.reduces_in_flight = 5;
  EXPECT_EQ(report(model, plan, options).ranks[0].gradient_bytes, 4 * 12927);
}

}  // namespace
}  // namespace matrixfsdp

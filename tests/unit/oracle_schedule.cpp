#include <cmath>

#include <gtest/gtest.h>

#include "support/oracle/schedule.hpp"

namespace oracle {
namespace {

TEST(OracleSchedule, warms_up_in_a_line) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::warmup_stable_decay}) {
    const Schedule schedule{kind, 20, 4, 0.1, 0.2};
    EXPECT_EQ(factor(schedule, 1), 0.25);
    EXPECT_EQ(factor(schedule, 3), 0.75);
    EXPECT_EQ(factor(schedule, 4), 1.0);
  }
}

TEST(OracleSchedule, constant_stays) {
  const Schedule schedule{ScheduleKind::constant, 20, 0, 0.1, 0.2};
  EXPECT_EQ(factor(schedule, 1), 1.0);
  EXPECT_EQ(factor(schedule, 1000), 1.0);
}

TEST(OracleSchedule, cosine) {
  const Schedule schedule{ScheduleKind::cosine, 20, 4, 0.2, 0.2};
  EXPECT_NEAR(factor(schedule, 8), 0.2 + 0.4 * (1.0 + std::sqrt(0.5)), 1e-15);  // a quarter of the way
  EXPECT_NEAR(factor(schedule, 12), 0.6, 1e-15);
  EXPECT_NEAR(factor(schedule, 16), 0.2 + 0.4 * (1.0 - std::sqrt(0.5)), 1e-15);
  EXPECT_EQ(factor(schedule, 20), 0.2);
  EXPECT_EQ(factor(schedule, 21), 0.2);
  EXPECT_NEAR(factor({ScheduleKind::cosine, 2, 0, 0.0, 0.2}, 1), 0.5, 1e-15);
}

TEST(OracleSchedule, stable_then_decays_in_a_line) {
  const Schedule schedule{ScheduleKind::warmup_stable_decay, 20, 4, 0.1, 0.25};  // the last 5 steps
  EXPECT_EQ(factor(schedule, 10), 1.0);
  EXPECT_EQ(factor(schedule, 15), 1.0);
  EXPECT_NEAR(factor(schedule, 16), 0.82, 1e-15);
  EXPECT_NEAR(factor(schedule, 18), 0.46, 1e-15);
  EXPECT_EQ(factor(schedule, 20), 0.1);
  EXPECT_EQ(factor(schedule, 25), 0.1);
  EXPECT_EQ(factor({ScheduleKind::warmup_stable_decay, 20, 4, 0.1, 0.0}, 20), 1.0);
}

}  // namespace
}  // namespace oracle

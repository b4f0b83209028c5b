#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/schedule.hpp>

namespace matrixfsdp {
namespace {

TEST(Schedules, Names) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::warmup_stable_decay}) {
    EXPECT_EQ(parse_schedule(name_of(kind)), kind);
  }
  EXPECT_EQ(parse_schedule("warmup-stable-decay"), ScheduleKind::warmup_stable_decay);
  EXPECT_THROW(parse_schedule("linear"), InputError);
}

TEST(Schedules, WarmUpIsTheSameForAll) {
  for (const ScheduleKind kind : {ScheduleKind::constant, ScheduleKind::cosine, ScheduleKind::warmup_stable_decay}) {
    const Schedule schedule{kind, 100, 8, 0.1, 0.2};
    EXPECT_EQ(schedule.factor(1), 0.125);
    EXPECT_EQ(schedule.factor(7), 0.875);
    EXPECT_EQ(schedule.factor(8), 1.0);
    EXPECT_THROW((void)schedule.factor(0), ContractError);
    EXPECT_THROW((void)schedule.factor(-5), ContractError);
  }
}

TEST(Schedules, Constant) {
  const Schedule schedule{ScheduleKind::constant, 10, 0, 0.1, 0.2};
  EXPECT_EQ(schedule.factor(1), 1.0);
  EXPECT_EQ(schedule.factor(10), 1.0);
  EXPECT_EQ(schedule.factor(1000), 1.0);
}

TEST(Schedules, Cosine) {
  const Schedule schedule{ScheduleKind::cosine, 44, 4, 0.25, 0.2};
  EXPECT_LT(schedule.factor(5), 1.0);
  EXPECT_NEAR(schedule.factor(14), 0.25 + 0.75 * (1.0 + std::sqrt(0.5)) / 2.0, 1e-15);
  EXPECT_NEAR(schedule.factor(24), 0.625, 1e-15);
  EXPECT_EQ(schedule.factor(44), 0.25);
  EXPECT_EQ(schedule.factor(45), 0.25);
  for (std::int64_t step = 5; step <= 44; ++step)
    EXPECT_LT(schedule.factor(step), schedule.factor(step - 1));
}

TEST(Schedules, WarmUpStableDecay) {
  const Schedule schedule{ScheduleKind::warmup_stable_decay, 100, 10, 0.5, 0.25};
  EXPECT_EQ(schedule.factor(11), 1.0);
  EXPECT_EQ(schedule.factor(75), 1.0);
  EXPECT_EQ(schedule.factor(76), 0.98);
  EXPECT_EQ(schedule.factor(100), 0.5);
  EXPECT_EQ(schedule.factor(101), 0.5);
  const Schedule to_zero{ScheduleKind::warmup_stable_decay, 7, 0, 0.0, 0.2};
  EXPECT_EQ(to_zero.factor(7), 0.0);
  EXPECT_GT(to_zero.factor(6), 0.0);
  const Schedule never{ScheduleKind::warmup_stable_decay, 7, 0, 0.0, 0.0};
  EXPECT_EQ(never.factor(7), 1.0);
}

TEST(Schedules, OneStep) {
  EXPECT_EQ((Schedule{ScheduleKind::constant, 1, 0, 0.1, 0.2}.factor(1)), 1.0);
  EXPECT_EQ((Schedule{ScheduleKind::cosine, 1, 0, 0.1, 0.2}.factor(1)), 0.1);
  EXPECT_EQ((Schedule{ScheduleKind::warmup_stable_decay, 1, 0, 0.1, 0.2}.factor(1)), 0.1);
  EXPECT_EQ((Schedule{ScheduleKind::cosine, 1, 1, 0.1, 0.2}.factor(1)), 1.0);
  EXPECT_EQ((Schedule{ScheduleKind::cosine, 5, 5, 0.1, 0.2}.factor(5)), 1.0);
  EXPECT_EQ((Schedule{ScheduleKind::cosine, 5, 5, 0.1, 0.2}.factor(6)), 0.1);
  EXPECT_EQ((Schedule{ScheduleKind::cosine, 5, 20, 0.1, 0.2}.factor(10)), 0.5);
}

TEST(Schedules, ValuesOutOfRangeThrow) {
  EXPECT_NO_THROW(validate(Schedule{}));
  EXPECT_THROW(validate(Schedule{ScheduleKind::cosine, 0, 0, 0.1, 0.2}), InputError);
  EXPECT_THROW(validate(Schedule{ScheduleKind::cosine, 5, -1, 0.1, 0.2}), InputError);
  EXPECT_THROW(validate(Schedule{ScheduleKind::cosine, 5, 0, 1.5, 0.2}), InputError);
  EXPECT_THROW(validate(Schedule{ScheduleKind::cosine, 5, 0, std::nan(""), 0.2}), InputError);
  EXPECT_THROW(validate(Schedule{ScheduleKind::cosine, 5, 0, 0.1, -0.2}), InputError);
}

}  // namespace
}  // namespace matrixfsdp

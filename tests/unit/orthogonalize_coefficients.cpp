#include <algorithm>
#include <cmath>
#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

namespace matrixfsdp {
namespace {

double apply(const QuinticSequence& sequence, int steps, double x) {
  for (int step = 0; step < steps; ++step) {
    const Quintic& p = sequence.at(step);
    x = x * (p.a + x * x * (p.b + x * x * p.c));
  }
  return x;
}

struct Expected {
  const char* name;
  int steps;
  double slope;  // of the composition at 0
  double low;    // least and largest value on [1e-2, 1]
  double high;
  double tolerance;
};

// Figures computed from the published coefficients by a separate program: a wrong digit in the table moves them.
TEST(QuinticSequences, MapSingularValuesAsPublished) {
  const Expected rows[] = {{"keller-jordan", 5, 484.9, 0.6818, 1.1344, 1e-4},
                           {"you", 5, 492.7, 0.9778, 1.0318, 1e-4},
                           {"polar-express", 5, 804.0, 0.8461, 1.1236, 1e-4},
                           {"polar-express-8", 8, 6363.0, 1.0, 1.0, 1e-4},
                           {"taylor", 10, 537.0, 0.99995, 1.0, 1e-4}};
  for (const Expected& row : rows) {
    SCOPED_TRACE(row.name);
    const QuinticSequence& sequence = quintic_sequence(row.name);
    EXPECT_EQ(sequence.name, row.name);
    EXPECT_EQ(sequence.default_steps, row.steps);
    double slope = 1.0;
    for (int step = 0; step < row.steps; ++step)
      slope *= sequence.at(step).a;
    EXPECT_NEAR(slope / row.slope, 1.0, 1e-3);
    double low = 10.0;
    double high = 0.0;
    for (int i = 0; i <= 200000; ++i) {
      const double y = apply(sequence, row.steps, std::pow(10.0, -2.0 * i / 200000.0));
      low = std::min(low, y);
      high = std::max(high, y);
    }
    EXPECT_NEAR(low, row.low, row.tolerance);
    EXPECT_NEAR(high, row.high, row.tolerance);
  }
}

// The table of the paper, digit by digit, with its safety factor of 1.05 on the first five steps only.
TEST(QuinticSequences, EveryDigitIsThePublishedOne) {
  constexpr Quintic published[] = {{8.28721201814563, -23.595886519098837, 17.300387312530933},
                                   {4.107059111542203, -2.9478499167379106, 0.5448431082926601},
                                   {3.9486908534822946, -2.908902115962949, 0.5518191394370137},
                                   {3.3184196573706015, -2.488488024314874, 0.51004894012372},
                                   {2.300652019954817, -1.6689039845747493, 0.4188073119525673},
                                   {1.891301407787398, -1.2679958271945868, 0.37680408948524835},
                                   {1.8750014808534479, -1.2500016453999487, 0.3750001645474248},
                                   {1.875, -1.25, 0.375}};
  const QuinticSequence& sequence = quintic_sequence("polar-express");
  for (int step = 0; step < 8; ++step) {
    const Quintic& found = sequence.at(step);
    const double safety = step < 5 ? 1.05 : 1.0;
    EXPECT_NEAR(found.a * safety, published[step].a, 1e-14 * std::fabs(published[step].a)) << step;
    EXPECT_NEAR(found.b * std::pow(safety, 3), published[step].b, 1e-14 * std::fabs(published[step].b)) << step;
    EXPECT_NEAR(found.c * std::pow(safety, 5), published[step].c, 1e-14 * std::fabs(published[step].c)) << step;
  }
}

TEST(QuinticSequences, StepsPastTheEndRepeatTheLast) {
  for (const std::string_view name : {"polar-express", "polar-express-8", "taylor"}) {
    const QuinticSequence& sequence = quintic_sequence(name);
    EXPECT_EQ(sequence.at(8).a, 1.875) << name;
    EXPECT_EQ(sequence.at(40).b, -1.25) << name;
    EXPECT_EQ(sequence.at(1000).c, 0.375) << name;
    EXPECT_NEAR(apply(sequence, 30, 0.01), 1.0, 1e-12) << name;
  }
  EXPECT_EQ(quintic_sequence("keller-jordan").at(7).a, 3.4445);
  EXPECT_EQ(quintic_sequence("you").at(5).c, 1.2012);
}

TEST(QuinticSequences, UnknownNameListsTheNames) {
  EXPECT_EQ(quintic_sequence_names().size(), 5U);
  try {
    quintic_sequence("polar");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    for (const std::string_view name : quintic_sequence_names()) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << name;
    }
    EXPECT_NE(std::string(error.what()).find("\"polar\""), std::string::npos);
  }
}

}  // namespace
}  // namespace matrixfsdp

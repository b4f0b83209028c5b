#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/plan/planner.hpp>

#include "support/agree.hpp"
#include "support/mpi_world.hpp"
#include "support/process_use.hpp"
#include "support/small_models.hpp"
#include "support/synthetic_run.hpp"

namespace matrixfsdp {
namespace {

using testing::open_descriptors;
using testing::resident_bytes;
using testing::SyntheticOptions;
using testing::SyntheticRun;
using testing::world;

constexpr int lives = 3000;
constexpr std::int64_t slack = 2 * 1024 * 1024;  ///< after life 100: less than 750 bytes a life

// CASES 42: MPICH has 2048 context ids. A communicator, a sharded model and its optimizer come and go, with a step now
// and then.
TEST(LongLives, three_thousand_runtimes_in_one_process) {
  const ModelSpec spec = testing::small_model(2);
  const Plan plan = make_plan(spec, world().size());
  SyntheticOptions options;
  options.micro_batches = world().size();
  std::int64_t descriptors = 0;
  std::int64_t resident = 0;
  for (int life = 1; life <= lives; ++life) {
    Communicator own = testing::duplicate_world();
    SyntheticRun run(own, spec, plan, options);
    if (life % 50 == 0) {
      const testing::SyntheticStep step = run.step([](const ParameterSpec& parameter, std::int64_t micro_batch,
                                                      std::span<const float> weight, std::span<float> gradient) {
        testing::draw_gradient(1, parameter, micro_batch, weight, gradient);
        return true;
      });
      ASSERT_TRUE(step.finite);
    }
    if (life == 100) {
      descriptors = open_descriptors();
      resident = resident_bytes();
    }
    if (life > 100 && life % 100 == 0) {
      std::string wrong;
      if (open_descriptors() != descriptors)
        wrong = fmt::format("{} descriptors, {} at life 100", open_descriptors(), descriptors);
      if (resident_bytes() > resident + slack)
        wrong = fmt::format("{} resident bytes, {} at life 100", resident_bytes(), resident);
      ASSERT_EQ(testing::first_of_all_ranks(wrong), "") << "life " << life;
    }
  }
}

}  // namespace
}  // namespace matrixfsdp

#include <algorithm>
#include <vector>

#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/core/random.hpp>

#include "support/checkpoint_run.hpp"
#include "support/property_check.hpp"
#include "support/synthetic_run.hpp"

// Properties of runs of any model on any ranks.
namespace matrixfsdp {
namespace {

using testing::check_property;
using testing::PropertyCase;
using testing::SyntheticOptions;
using testing::SyntheticRun;

SyntheticOptions options_of(const PropertyCase& sample) {
  SyntheticOptions options;
  options.micro_batches = sample.micro_batches();
  options.max_norm = sample.max_norm;
  options.optimizer.matrices = sample.matrices;
  options.optimizer.muon.weight_decay = 0.1;
  options.sharding.prefetch = sample.prefetch;
  options.sharding.seed = sample.seed;
  return options;
}

/// Ordinary gradients with, now and then, a parameter that takes no part and one element that is far too large.
testing::GradientRule rule_of(const PropertyCase& sample, std::int64_t step) {
  return [seed = sample.seed, step](const ParameterSpec& spec, std::int64_t micro_batch, std::span<const float> weight,
                                    std::span<float> gradient) {
    const CounterRandom random(seed + static_cast<std::uint64_t>(step), stream_of(spec.name));
    if (random.below(static_cast<std::uint64_t>(micro_batch), 4) == 0) return false;
    testing::draw_gradient(seed * 100 + static_cast<std::uint64_t>(step), spec, micro_batch, weight, gradient);
    if (!gradient.empty() && random.below(1000, 6) == 0) gradient[random.below(1001, gradient.size())] = 1e24F;
    return true;
  };
}

// Equal bits across W and policies, after every step; and no byte for the optimizer.
TEST(Property, any_plan_gives_the_bits_of_one_rank) {
  check_property("equal bits", [](const PropertyCase& sample, Communicator& ranks, Communicator& alone) {
    SyntheticRun expected(alone, sample.model, make_plan(sample.model, 1), options_of(sample));
    SyntheticRun run(ranks, sample.model, sample.plan(), options_of(sample));
    std::string wrong;
    for (std::int64_t step = 1; step <= sample.steps; ++step) {
      const double norm = expected.step(rule_of(sample, step)).norm;
      if (run.step(rule_of(sample, step)).norm != norm && wrong.empty()) wrong = "the norm differs";
      if (wrong.empty()) wrong = run.difference_from(expected.tensors());
    }
    if (wrong.empty() && ranks.bytes()[Purpose::optimizer] != 0) wrong = "the optimizer has sent bytes";
    return wrong;
  });
}

// CASES 49, 50, 52, 53: saved after any step on any ranks and continued on others under another plan, a run ends as it
// would have without the interruption.
TEST(Property, save_and_resume_is_no_interruption) {
  const testing::SharedFolder folder(testing::world());
  check_property("save and resume", [&](const PropertyCase& sample, Communicator& ranks, Communicator& alone) {
    const std::string mine = folder / ("of_" + std::to_string(sample.seed));
    SyntheticRun whole(alone, sample.model, make_plan(sample.model, 1), options_of(sample));
    const std::int64_t before = static_cast<std::int64_t>(sample.seed) % (sample.steps + 1);
    {
      SyntheticRun first(ranks, sample.model, sample.plan(), options_of(sample));
      for (std::int64_t step = 1; step <= before; ++step)
        first.step(rule_of(sample, step));
      io::TrainingState state = testing::training_state(before + 1);
      state.optimizer_steps = first.steps_taken();
      io::save_checkpoint(mine, first.model(), first.optimizer(), state);
    }
    PropertyCase other = sample;
    other.policy = sample.policy == Policy::role ? Policy::balanced : Policy::role;
    other.tails = sample.tails == TailPlacement::packed ? TailPlacement::spread : TailPlacement::packed;
    other.replicated = sample.seed % 5 == 0;
    SyntheticOptions options = options_of(other);
    options.sharding.seed += 1;  // whatever is not loaded shows
    SyntheticRun second(ranks, sample.model, other.plan(), options);
    const auto latest = io::find_latest(ranks, mine);
    if (!latest) return std::string("no checkpoint was found");
    const io::TrainingState state = io::load_checkpoint(*latest, second.model(), second.optimizer());
    second.continue_after(state.optimizer_steps);
    for (std::int64_t step = 1; step <= sample.steps; ++step) {
      whole.step(rule_of(sample, step));
      if (step > before) second.step(rule_of(sample, step));
    }
    return second.difference_from(whole.tensors());
  });
}

/// Compares what is unsharded with the whole tensors.
std::string difference_of_unit(const ShardedModel& model, std::size_t unit, const testing::WholeTensors& whole) {
  for (std::size_t p = 0; p < model.weights(unit).size(); ++p) {
    const TensorView<float>& values = model.weights(unit)[p];
    const std::string& name = model.spec().units[unit].parameters[p].name;
    if (values.size() == 0) continue;
    const std::vector<float>& expected = whole.at(name);
    if (expected.size() != values.size() || !std::equal(expected.begin(), expected.end(), values.data()))
      return name + " has other values after unshard";
  }
  return {};
}

// Units in any order, used once or twice at a time, give the bytes of the shards at the same address, before and after
// a step.
TEST(Property, unshard_after_reshard_returns_the_same_bytes) {
  check_property("unshard", [](const PropertyCase& sample, Communicator& ranks, Communicator& alone) {
    SyntheticRun expected(alone, sample.model, make_plan(sample.model, 1), options_of(sample));
    SyntheticRun run(ranks, sample.model, sample.plan(), options_of(sample));
    ShardedModel& model = run.model();
    std::vector<const float*> addresses(model.unit_count(), nullptr);
    const CounterRandom random(sample.seed, stream_of("order of units"));
    std::string wrong;
    for (std::uint64_t draw = 0; draw < 24; ++draw) {
      if (draw == 12) {
        run.step(rule_of(sample, 1));
        expected.step(rule_of(sample, 1));
      }
      const std::size_t u = random.below(2 * draw, model.unit_count());
      const std::uint64_t uses = 1 + random.below(2 * draw + 1, 2);
      for (std::uint64_t use = 0; use < uses; ++use)
        model.unshard(u, random.below(100 + draw, 2) == 0 ? Phase::forward : Phase::backward);
      Kokkos::fence();
      if (wrong.empty()) wrong = difference_of_unit(model, u, expected.tensors());
      const float* address = model.weights(u).empty() ? nullptr : model.weights(u)[0].data();
      if (addresses[u] != nullptr && address != addresses[u]) wrong = model.spec().units[u].name + " has moved";
      addresses[u] = address;
      for (std::uint64_t use = 0; use < uses; ++use)
        model.reshard(u);
    }
    return wrong;
  });
}

}  // namespace
}  // namespace matrixfsdp

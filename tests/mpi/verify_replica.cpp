#include <cmath>

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "apps/train/replica.hpp"
#include "apps/train/verify.hpp"
#include "support/messages.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::world;

train::Options small_options() {
  train::Options options;
  options.shape = {TransformerStyle::gpt2, 2, 16, 2, 2, 32, 8, 64, true};
  options.batch_size = world().size();
  return options;
}

train::Options replicated(train::Options options) {
  options.strategy = StrategyKind::ddp;
  return options;
}

/// A replica and its replicated reference after the same pass.
struct Pair {
  Pair()
      : options(small_options()),
        spec(transformer_model(options.shape)),
        replica(world(), options, make_plan(spec, world().size())),
        reference(world(), replicated(options), make_replicated_plan(spec, world().size())) {
    train::MicroBatch batch;
    for (int i = 0; i < 8; ++i) {
      batch.tokens.push_back((7 * i + world().rank()) % 64);
      batch.targets.push_back((5 * i + 3) % 64);
    }
    for (train::Replica* each : {&replica, &reference}) {
      train::PassTimes times;
      each->model.begin_step();
      train::run_pass(*each, batch, 1.0F, times);
    }
  }

  train::Options options;
  ModelSpec spec;
  train::Replica replica;
  train::Replica reference;
};

TEST(Verify, equal_replicas_pass) {
  Pair pair;
  EXPECT_NO_THROW(train::verify_gradients(pair.replica, pair.reference, 3));
  EXPECT_NO_THROW(train::verify_weights(pair.replica, pair.reference, 3));
}

// One bit of one element is enough, and the message names step, parameter and element.
TEST(Verify, names_the_first_gradient_and_weight_that_differ) {
  Pair pair;
  for (const ParameterView& view : pair.replica.model.trainable()) {
    const std::size_t last = view.gradient.size() - 1;
    const std::int64_t element = view.elements.begin + static_cast<std::int64_t>(last);
    for (const bool weight : {false, true}) {
      const TensorView<float> values = weight ? view.weight : view.gradient;
      const float kept = values(last);
      values(last) = std::nextafter(kept, 1e30F);
      const std::string message = test::message_of<Error>([&] {
        if (weight) {
          train::verify_weights(pair.replica, pair.reference, 3);
        } else {
          train::verify_gradients(pair.replica, pair.reference, 3);
        }
      });
      values(last) = kept;
      EXPECT_NE(message.find("step 3"), std::string::npos) << message;
      EXPECT_NE(message.find(view.spec->name), std::string::npos) << message;
      EXPECT_NE(message.find("element " + std::to_string(element)), std::string::npos) << message;
      EXPECT_NE(message.find(weight ? "weight" : "gradient"), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace matrixfsdp

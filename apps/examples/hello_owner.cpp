// A model of one's own under MatrixFSDP: two matrices and a bias, hand-written gradients, five owner steps.
// Quoted by the README. Run: mpiexec -n 2 hello_owner
#include <cstdio>

#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/plan/planner.hpp>

using namespace matrixfsdp;

// f = sum of squares / 2 over all weights, so the gradient is the weight. Yours goes here.
double backward(const UnitTensors<float>& weights, UnitTensors<float>& gradients) {
  double value = 0;
  for (std::size_t p = 0; p < weights.size(); ++p) {
    for (std::size_t i = 0; i < weights[p].size(); ++i) {
      value += 0.5 * weights[p](i) * weights[p](i);
      gradients[p](i) += weights[p](i);
    }
  }
  return value;
}

// README: begin
int train(Communicator& world) {
  double value = 0;
  ModelSpec spec;
  spec.units = {{"mlp", {{"up", {64, 16}}, {"down", {16, 64}}, {"bias", {64}}}}};
  ShardedModel model(world, spec, make_plan(spec, world.size()), {});
  const auto optimizer = make_optimizer(model.trainable(), {});  // Muon on what this rank owns, AdamW on its tails

  for (std::int64_t step = 1; step <= 5; ++step) {
    model.begin_step();
    model.begin_pass();
    model.unshard(0, Phase::forward);
    value = backward(model.weights(0), model.gradients(0));
    model.reshard(0);
    model.reduce(0);  // the full gradient is now with the owner
    const GradientNorm norm = gradient_norm(model);
    if (norm.finite) optimizer->step({clip_scale(norm.norm, 1.0), 1.0, step});  // sends nothing
    model.weights_changed();
    if (world.rank() == 0)
      std::printf("step %lld: value %.6f, gradient norm %.6f\n", static_cast<long long>(step), value, norm.norm);
  }
  return value < 0.1 ? exit_ok : exit_different;  // it began at 0.43
}
// README: end

int main(int argc, char** argv) {
  return run_main([&] {
    Session session = Session::start(argc, argv);
    return train(session.world());
  });
}

#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <matrixfsdp/baselines/strategy.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/nn/transformer.hpp>
#include <matrixfsdp/optim/routing.hpp>
#include <matrixfsdp/optim/schedule.hpp>
#include <matrixfsdp/plan/planner.hpp>

/// The step loop of the library as a user writes it, for tests of whole runs.
namespace matrixfsdp::testing {

/// Sequences of T + 1 token ids.
using Batch = std::vector<std::vector<std::int32_t>>;

/// A run, but for where its shards live. Nothing here knows the number of ranks.
struct Training {
  TransformerShape shape;
  ModelSpec spec;  ///< transformer_model(shape), perhaps with frozen parameters and groups
  RoutingOptions optimizer;
  Schedule schedule;
  double max_norm = 0.0;
  std::int64_t batch = 12;        ///< sequences
  std::int64_t micro_batch = 1;   ///< sequences; batch / micro_batch is a multiple of every W that is used
  std::int64_t tokens = 16;       ///< per sequence
  std::uint64_t seed = 1;         ///< of weights and data
  bool recompute = false;         ///< in the transformer
  bool step_in_backward = false;  ///< in the sharded model, where the plan is not replicated
  int prefetch = 1;               ///< of the sharded model
  UnitPolicies policies;          ///< of the sharded model
  StrategyKind strategy = StrategyKind::matrix_fsdp;  ///< of a plan that is not replicated
  /// On the loss of a micro-batch, by step and index; one where empty.
  std::function<float(std::int64_t, std::int64_t)> weight;
};

inline Training training_of(const TransformerShape& shape) {
  Training training;
  training.shape = shape;
  training.spec = transformer_model(shape);
  training.tokens = shape.sequence_length;
  return training;
}

/// The global batch of a step, from 1: chains whose next id is mostly 5 id + 3, so that there is something to learn.
inline Batch batch_of(const Training& training, std::int64_t step) {
  const CounterRandom random(training.seed, stream_of("batch") + static_cast<std::uint64_t>(step));
  const auto vocabulary = static_cast<std::uint64_t>(training.shape.vocabulary);
  std::uint64_t draw = 0;
  Batch batch;
  for (std::int64_t s = 0; s < training.batch; ++s) {
    std::vector<std::int32_t> sequence{static_cast<std::int32_t>(random.below(draw++, vocabulary))};
    while (static_cast<std::int64_t>(sequence.size()) <= training.tokens) {
      const bool regular = random.below(draw++, 8) != 0;
      const std::uint64_t other = random.below(draw++, vocabulary);
      const auto last = static_cast<std::uint64_t>(sequence.back());
      sequence.push_back(static_cast<std::int32_t>(regular ? (5 * last + 3) % vocabulary : other));
    }
    batch.push_back(std::move(sequence));
  }
  return batch;
}

struct StepRecord {
  double loss = 0.0;
  double norm = 0.0;
  bool skipped = false;
  std::int64_t matrices = 0;  ///< orthogonalized on this rank
};

class TrainingLoop {
 public:
  TrainingLoop(Communicator& communicator, const Training& training, Plan plan)
      : communicator_(communicator),
        training_(training),
        strategy_(plan.replicated ? StrategyKind::ddp : training.strategy, communicator, training.spec, std::move(plan),
                  {model_options(communicator, training), training.optimizer}),
        model_(strategy_.model()),
        transformer_(training.shape, transformer_options(training)) {}

  /// Collective. `batch` is the global one.
  StepRecord step(const Batch& batch) {
    ++step_;
    std::vector<double> losses;
    StepInput input;
    input.schedule = training_.schedule.factor(step_);
    input.step = taken_ + 1;
    if (training_.step_in_backward) strategy_.step_in_backward(input);
    model_.begin_step();
    for (std::int64_t pass = 0; pass < passes(communicator_, training_); ++pass)
      losses.push_back(run_pass(batch, pass * communicator_.size() + communicator_.rank()));
    StepRecord record;
    record.loss = fold_losses(communicator_, losses) / static_cast<double>(training_.batch * training_.tokens);
    const GradientNorm norm = gradient_norm(model_);
    record.norm = norm.norm;
    record.skipped = !norm.finite;
    if (record.skipped) return record;
    input.gradient_scale = clip_scale(norm.norm, training_.max_norm);
    ++taken_;
    record.matrices = strategy_.step(input).matrices_orthogonalized;
    return record;
  }

  /// Collective. Every parameter, by name, on every rank, as the optimizer sees it.
  std::map<std::string, std::vector<float>> masters() {
    std::map<std::string, std::vector<float>> all;
    for (std::size_t u = 0; u < model_.unit_count(); ++u) {
      const UnitSpec& unit = model_.spec().units[u];
      for (const ParameterSpec& spec : unit.parameters)
        all[spec.name].resize(static_cast<std::size_t>(element_count(spec.shape)));
      for (const Segment& segment : model_.plan().units[u].weights.segments)
        copy_segment(u, segment, all.at(unit.parameters[segment.parameter].name));
    }
    return all;
  }

  /// Collective. Every parameter, by name, on every rank, as forward and backward see it.
  std::map<std::string, std::vector<float>> parameters() {
    std::map<std::string, std::vector<float>> all;
    for (std::size_t u = 0; u < model_.unit_count(); ++u) {
      model_.unshard(u, Phase::forward);
      Kokkos::fence();
      for (std::size_t p = 0; p < model_.weights(u).size(); ++p) {
        const TensorView<float>& values = model_.weights(u)[p];
        all[model_.spec().units[u].parameters[p].name] = {values.data(), values.data() + values.size()};
      }
      model_.reshard(u);
    }
    return all;
  }

  [[nodiscard]] ShardedModel& model() { return model_; }

 private:
  static std::int64_t passes(const Communicator& communicator, const Training& training) {
    const std::int64_t together = training.micro_batch * communicator.size();
    require(training.batch % together == 0, "TrainingLoop: the batch does not fit the number of ranks");
    return training.batch / together;
  }

  static ShardedModelOptions model_options(const Communicator& communicator, const Training& training) {
    ShardedModelOptions options;
    options.prefetch = training.prefetch;
    options.policies = training.policies;
    options.step_in_backward = training.step_in_backward;
    options.passes = passes(communicator, training);
    options.seed = training.seed;
    return options;
  }

  static nn::TransformerOptions transformer_options(const Training& training) {
    nn::TransformerOptions options;
    options.micro_batch = training.micro_batch;
    options.sequence_length = training.tokens;
    options.recompute = training.recompute;
    return options;
  }

  /// From the rank that holds it to `values`, on every rank.
  void copy_segment(std::size_t unit, const Segment& segment, std::vector<float>& values) {
    const auto size = static_cast<std::size_t>(segment.elements.size());
    std::vector<float> held(size);
    for (const ParameterView& view : model_.resident()) {
      const bool here = segment.rank == communicator_.rank() && view.unit == unit && view.index == segment.parameter;
      if (!here || intersect(view.elements, segment.elements).size() != segment.elements.size()) continue;
      const float* from = view.weight.data() + segment.elements.begin - view.elements.begin;
      held.assign(from, from + size);
    }
    const auto bytes = communicator_.broadcast(Purpose::other, std::as_bytes(std::span(held)), segment.rank,
                                               {"master weights", "", ""});
    std::memcpy(values.data() + segment.elements.begin, bytes.data(), bytes.size());
  }

  /// Forward and backward of one micro-batch; its summed loss.
  double run_pass(const Batch& batch, std::int64_t index) {
    std::vector<std::int32_t> tokens;
    std::vector<std::int32_t> targets;
    for (std::int64_t s = index * training_.micro_batch; s < (index + 1) * training_.micro_batch; ++s) {
      const std::vector<std::int32_t>& sequence = batch[static_cast<std::size_t>(s)];
      tokens.insert(tokens.end(), sequence.begin(), sequence.end() - 1);
      targets.insert(targets.end(), sequence.begin() + 1, sequence.end());
    }
    const float weight = training_.weight ? training_.weight(step_, index) : 1.0F;
    const float scale = weight / static_cast<float>(training_.batch * training_.tokens);
    const auto layers = training_.shape.layers;
    model_.begin_pass();
    model_.unshard(0, Phase::forward);
    transformer_.embed(model_.weights(0), tokens);
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const auto unit = static_cast<std::size_t>(layer + 1);
      model_.unshard(unit, Phase::forward);
      transformer_.block_forward(layer, model_.weights(unit));
      model_.reshard(unit);
    }
    const double loss = transformer_.loss_forward_backward(model_.weights(0), model_.gradients(0), targets, scale);
    for (std::int64_t layer = layers; layer-- > 0;) {
      const auto unit = static_cast<std::size_t>(layer + 1);
      model_.unshard(unit, Phase::backward);
      transformer_.block_backward(layer, model_.weights(unit), model_.gradients(unit));
      model_.reduce(unit);
      model_.reshard(unit);
    }
    transformer_.embed_backward(model_.gradients(0), tokens);
    model_.reduce(0);
    model_.reshard(0);
    return loss;
  }

  Communicator& communicator_;
  Training training_;
  Strategy strategy_;
  ShardedModel& model_;
  nn::Transformer<float> transformer_;
  std::int64_t step_ = 0;
  std::int64_t taken_ = 0;
};

/// Every step's record and the last parameters.
struct TrainingResult {
  std::vector<StepRecord> steps;
  std::map<std::string, std::vector<float>> parameters;
};

inline TrainingResult run_training(Communicator& communicator, const Training& training, Plan plan,
                                   std::int64_t steps) {
  TrainingLoop loop(communicator, training, std::move(plan));
  TrainingResult result;
  for (std::int64_t step = 1; step <= steps; ++step)
    result.steps.push_back(loop.step(batch_of(training, step)));
  result.parameters = loop.parameters();
  return result;
}

}  // namespace matrixfsdp::testing

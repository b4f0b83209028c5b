#pragma once

#include <map>
#include <string>
#include <vector>

#include "support/oracle/trainer.hpp"
#include "support/training_loop.hpp"

/// A run of the library in the words of the oracle, which knows nothing of the library.
namespace matrixfsdp::testing {

inline oracle::Model oracle_model(const TransformerShape& shape) {
  const auto size = [](std::int64_t extent) { return static_cast<std::size_t>(extent); };
  oracle::Model model;
  model.style = shape.style == TransformerStyle::gpt2 ? oracle::Style::gpt2 : oracle::Style::llama;
  model.layers = size(shape.layers);
  model.hidden = size(shape.hidden);
  model.heads = size(shape.heads);
  model.kv_heads = size(shape.kv_heads);
  model.ffn = size(shape.ffn);
  model.sequence_length = size(shape.sequence_length);
  model.vocabulary = size(shape.vocabulary);
  model.tied_head = shape.tied_head;
  return model;
}

inline oracle::Schedule oracle_schedule(const Schedule& schedule) {
  oracle::Schedule result;
  if (schedule.kind == ScheduleKind::cosine) result.kind = oracle::ScheduleKind::cosine;
  if (schedule.kind == ScheduleKind::warmup_stable_decay) result.kind = oracle::ScheduleKind::warmup_stable_decay;
  result.total_steps = static_cast<std::size_t>(schedule.total_steps);
  result.warmup_steps = static_cast<std::size_t>(schedule.warmup_steps);
  result.final_factor = schedule.final_factor;
  result.decay_share = schedule.decay_share;
  return result;
}

inline oracle::Options oracle_options(const Training& training) {
  const MuonOptions& muon = training.optimizer.muon;
  const AdamWOptions& adamw = training.optimizer.adamw;
  oracle::Options options;
  options.muon_for_matrices = training.optimizer.matrices == MatrixOptimizer::muon;
  options.muon.learning_rate = muon.learning_rate;
  options.muon.weight_decay = muon.weight_decay;
  options.muon.momentum = muon.momentum;
  options.muon.nesterov = muon.nesterov;
  options.muon.scale = std::string(name_of(muon.scale));
  if (muon.newton_schulz.coefficients != nullptr) {
    options.muon.table = std::string(muon.newton_schulz.coefficients->name);
  }
  options.muon.steps = static_cast<std::size_t>(muon.newton_schulz.steps);
  options.adamw = {adamw.learning_rate, adamw.weight_decay, adamw.beta1, adamw.beta2, adamw.epsilon};
  options.schedule = oracle_schedule(training.schedule);
  options.max_norm = training.max_norm;
  options.bfloat16_weights = training.policies.all.param_dtype == DType::bfloat16;
  options.bfloat16_gradients = training.policies.all.reduce_dtype == DType::bfloat16;
  for (const UnitSpec& unit : training.spec.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.frozen) options.frozen.insert(parameter.name);
      for (const ParameterGroup& group : training.spec.groups) {
        if (group.name == parameter.group) {
          options.groups[parameter.name] = {group.learning_rate_scale, group.weight_decay};
        }
      }
    }
  }
  return options;
}

/// Values by name, with the shapes that the oracle expects of the model.
inline oracle::Parameters oracle_parameters(const TransformerShape& shape,
                                            const std::map<std::string, std::vector<float>>& values) {
  oracle::Parameters parameters;
  for (const oracle::ParameterInfo& info : oracle::parameter_list(oracle_model(shape))) {
    const std::vector<float>& from = values.at(info.name);
    parameters.emplace(info.name, oracle::Tensor{info.shape, {from.begin(), from.end()}});
  }
  return parameters;
}

}  // namespace matrixfsdp::testing

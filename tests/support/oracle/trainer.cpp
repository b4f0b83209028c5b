#include "support/oracle/trainer.hpp"

#include <cmath>
#include <stdexcept>

#include "support/oracle/rounding.hpp"

namespace oracle {
namespace {

Parameters rounded(Parameters parameters) {
  for (auto& [name, tensor] : parameters) {
    for (double& value : tensor.values)
      value = round_to_bfloat16(value);
  }
  return parameters;
}

}  // namespace

Trainer::Trainer(Model model, Options options, Parameters initial)
    : model_(model), options_(std::move(options)), parameters_(std::move(initial)), list_(parameter_list(model)) {
  if (parameters_.size() != list_.size()) throw std::invalid_argument("oracle: number of initial parameters");
  for (const ParameterInfo& info : list_) {
    const auto at = parameters_.find(info.name);
    if (at == parameters_.end() || at->second.shape != info.shape || at->second.values.size() != size_of(info.shape)) {
      throw std::invalid_argument("oracle: initial parameter " + info.name);
    }
  }
}

StepResult Trainer::step(const std::vector<Sequence>& batch, std::size_t micro_batch) {
  if (batch.empty() || micro_batch == 0 || batch.size() % micro_batch != 0) {
    throw std::invalid_argument("oracle: the batch is not made of whole micro-batches");
  }
  std::size_t tokens = 0;
  for (const Sequence& sequence : batch)
    tokens += sequence.size() - 1;
  const auto count = static_cast<double>(tokens);

  double loss = 0.0;
  Parameters gradient = zeros_like(parameters_);
  const Parameters used = options_.bfloat16_weights ? rounded(parameters_) : parameters_;
  for (std::size_t first = 0; first < batch.size(); first += micro_batch) {
    double micro_loss = 0.0;
    Parameters micro_gradient = zeros_like(parameters_);
    for (std::size_t i = first; i < first + micro_batch; ++i)
      micro_loss += loss_sum_and_gradient(model_, used, batch[i], 1.0 / count, micro_gradient);
    if (options_.bfloat16_gradients) micro_gradient = rounded(std::move(micro_gradient));
    loss += micro_loss;
    for (auto& [name, total] : gradient) {
      const Tensor& part = micro_gradient.at(name);
      for (std::size_t i = 0; i < total.values.size(); ++i)
        total.values[i] += part.values[i];
    }
  }

  double square = 0.0;
  for (const ParameterInfo& info : list_) {
    if (options_.frozen.count(info.name) != 0) continue;
    for (const double value : gradient.at(info.name).values)
      square += value * value;
  }
  const double norm = std::sqrt(square);
  const double scale = options_.max_norm > 0.0 ? std::fmin(1.0, options_.max_norm / norm) : 1.0;

  ++steps_;
  const double learning_rate_factor = factor(options_.schedule, steps_);
  for (const ParameterInfo& info : list_) {
    if (options_.frozen.count(info.name) != 0) continue;
    std::vector<double>& values = gradient.at(info.name).values;
    for (double& value : values)
      value *= scale;
    update(info, values, learning_rate_factor);
  }
  return {loss / count, norm};
}

void Trainer::update(const ParameterInfo& info, const std::vector<double>& gradient, double learning_rate_factor) {
  const auto found = options_.groups.find(info.name);
  const Group group = found == options_.groups.end() ? Group{} : found->second;
  Tensor& weight = parameters_.at(info.name);
  const bool is_matrix = info.role == Role::linear && info.shape[0] >= 2 && info.shape[1] >= 2;
  if (is_matrix && options_.muon_for_matrices) {
    muon_step(options_.muon, group, learning_rate_factor, info.row_blocks, gradient, muon_[info.name], weight);
  } else {
    adamw_step(options_.adamw, group, learning_rate_factor, steps_, gradient, adamw_[info.name], weight);
  }
}

}  // namespace oracle

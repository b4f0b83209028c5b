#include "support/oracle/transformer.hpp"

#include <cmath>
#include <stdexcept>

#include "support/oracle/layers.hpp"

namespace oracle {
namespace {

Matrix sum(Matrix a, const Matrix& b) {
  for (std::size_t i = 0; i < a.values.size(); ++i)
    a.values[i] += b.values[i];
  return a;
}

/// A parameter by name; null where the model has none (a bias of llama).
template <class Map>
auto* find(Map& parameters, const std::string& name) {
  const auto at = parameters.find(name);
  return at == parameters.end() ? nullptr : &at->second;
}

struct BlockActivations {
  Matrix input;
  Matrix attention_input;
  Matrix qkv;  // llama: query and key rotated
  Matrix attended;
  Matrix middle;
  Matrix mlp_input;
  Matrix wide;   // gpt2: up; llama: gate and up
  Matrix inner;  // input of mlp.down
};

class Pass {
 public:
  Pass(const Model& model, const Parameters& parameters, const Sequence& sequence)
      : model_(model),
        parameters_(parameters),
        sequence_(sequence),
        length_(sequence.size() - 1),
        heads_{model.heads, model.kv_heads, model.head_dimension()},
        mlp_wide_(model.style == Style::gpt2 ? "mlp.up" : "mlp.gate_up") {
    if (sequence.size() < 2 || length_ > model.sequence_length) throw std::invalid_argument("oracle: sequence length");
  }

  double forward() {
    Matrix x = embed();
    for (std::size_t layer = 0; layer < model_.layers; ++layer)
      x = block(layer, std::move(x));
    blocks_output_ = std::move(x);
    final_ = norm(blocks_output_, at("final_norm.weight"), find(parameters_, "final_norm.bias"));
    probabilities_ = linear(final_, at(head_name()), nullptr);
    double total = 0.0;
    for (std::size_t t = 0; t < length_; ++t)
      total += cross_entropy(t);
    return total;
  }

  void backward(double scale, Parameters& gradient) {
    Matrix d = std::move(probabilities_);
    for (std::size_t t = 0; t < length_; ++t) {
      d(t, id(t + 1)) -= 1.0;
      for (std::size_t v = 0; v < d.cols; ++v)
        d(t, v) *= scale;
    }
    d = linear_backward(final_, at(head_name()), d, gradient.at(head_name()), nullptr);
    d = norm_backward(blocks_output_, at("final_norm.weight"), d, gradient.at("final_norm.weight"),
                      find(gradient, "final_norm.bias"));
    for (std::size_t layer = model_.layers; layer-- > 0;)
      d = block_backward(layer, d, gradient);
    embed_backward(d, gradient);
  }

 private:
  [[nodiscard]] const Tensor& at(const std::string& name) const { return parameters_.at(name); }
  [[nodiscard]] std::string head_name() const { return model_.tied_head ? "token_embedding" : "head.weight"; }
  [[nodiscard]] std::size_t id(std::size_t position) const {
    const auto token = static_cast<std::size_t>(sequence_[position]);
    if (sequence_[position] < 0 || token >= model_.vocabulary) throw std::invalid_argument("oracle: token id");
    return token;
  }

  Matrix embed() const {
    const Tensor* positions = find(parameters_, "position_embedding");
    Matrix x(length_, model_.hidden);
    for (std::size_t t = 0; t < length_; ++t) {
      for (std::size_t j = 0; j < model_.hidden; ++j) {
        x(t, j) = at("token_embedding").values[id(t) * model_.hidden + j];
        if (positions != nullptr) x(t, j) += positions->values[t * model_.hidden + j];
      }
    }
    return x;
  }

  void embed_backward(const Matrix& d, Parameters& gradient) const {
    Tensor* positions = find(gradient, "position_embedding");
    for (std::size_t t = 0; t < length_; ++t) {
      for (std::size_t j = 0; j < model_.hidden; ++j) {
        gradient.at("token_embedding").values[id(t) * model_.hidden + j] += d(t, j);
        if (positions != nullptr) positions->values[t * model_.hidden + j] += d(t, j);
      }
    }
  }

  /// Turns logits of row `t` into probabilities.
  double cross_entropy(std::size_t t) {
    double largest = -INFINITY;
    for (std::size_t v = 0; v < model_.vocabulary; ++v)
      largest = std::fmax(largest, probabilities_(t, v));
    const double target = probabilities_(t, id(t + 1));
    double total = 0.0;
    for (std::size_t v = 0; v < model_.vocabulary; ++v) {
      probabilities_(t, v) = std::exp(probabilities_(t, v) - largest);
      total += probabilities_(t, v);
    }
    for (std::size_t v = 0; v < model_.vocabulary; ++v)
      probabilities_(t, v) /= total;
    return largest + std::log(total) - target;
  }

  Matrix apply_linear(const Matrix& x, const std::string& name) const {
    return linear(x, at(name), find(parameters_, name + "_bias"));
  }
  Matrix apply_linear_backward(const Matrix& x, const std::string& name, const Matrix& dy, Parameters& gradient) const {
    return linear_backward(x, at(name), dy, gradient.at(name), find(gradient, name + "_bias"));
  }
  Matrix apply_norm(const Matrix& x, const std::string& name) const {
    return norm(x, at(name + ".weight"), find(parameters_, name + ".bias"));
  }
  Matrix apply_norm_backward(const Matrix& x, const std::string& name, const Matrix& dy, Parameters& gradient) const {
    return norm_backward(x, at(name + ".weight"), dy, gradient.at(name + ".weight"), find(gradient, name + ".bias"));
  }

  Matrix block(std::size_t layer, Matrix x) {
    const std::string name = "block." + std::to_string(layer) + ".";
    Matrix attention_input = apply_norm(x, name + "attention_norm");
    Matrix qkv = apply_linear(attention_input, name + "attention.qkv");
    turn(qkv, 1.0);
    Matrix attended = attention(qkv, heads_);
    Matrix middle = sum(apply_linear(attended, name + "attention.output"), x);
    Matrix mlp_input = apply_norm(middle, name + "mlp_norm");
    Matrix wide = apply_linear(mlp_input, name + mlp_wide_);
    Matrix inner = activate(wide);
    Matrix output = sum(apply_linear(inner, name + "mlp.down"), middle);
    blocks_.push_back({std::move(x), std::move(attention_input), std::move(qkv), std::move(attended), std::move(middle),
                       std::move(mlp_input), std::move(wide), std::move(inner)});
    return output;
  }

  Matrix block_backward(std::size_t layer, const Matrix& dy, Parameters& gradient) const {
    const std::string name = "block." + std::to_string(layer) + ".";
    const BlockActivations& kept = blocks_[layer];
    Matrix d = apply_linear_backward(kept.inner, name + "mlp.down", dy, gradient);
    d = activate_backward(kept.wide, d);
    d = apply_linear_backward(kept.mlp_input, name + mlp_wide_, d, gradient);
    const Matrix middle = sum(apply_norm_backward(kept.middle, name + "mlp_norm", d, gradient), dy);
    d = apply_linear_backward(kept.attended, name + "attention.output", middle, gradient);
    d = attention_backward(kept.qkv, heads_, d);
    turn(d, -1.0);
    d = apply_linear_backward(kept.attention_input, name + "attention.qkv", d, gradient);
    return sum(apply_norm_backward(kept.input, name + "attention_norm", d, gradient), middle);
  }

  void turn(Matrix& qkv, double direction) const {
    if (model_.style == Style::llama) rotate(qkv, 0, model_.heads + model_.kv_heads, heads_.dimension, direction);
  }

  Matrix activate(const Matrix& wide) const {
    Matrix inner(length_, model_.ffn);
    for (std::size_t t = 0; t < length_; ++t) {
      for (std::size_t j = 0; j < model_.ffn; ++j) {
        inner(t, j) = model_.style == Style::gpt2 ? gelu(wide(t, j)) : silu(wide(t, j)) * wide(t, model_.ffn + j);
      }
    }
    return inner;
  }

  Matrix activate_backward(const Matrix& wide, const Matrix& dy) const {
    Matrix d(length_, wide.cols);
    for (std::size_t t = 0; t < length_; ++t) {
      for (std::size_t j = 0; j < model_.ffn; ++j) {
        if (model_.style == Style::gpt2) {
          d(t, j) = dy(t, j) * gelu_slope(wide(t, j));
        } else {
          d(t, j) = dy(t, j) * wide(t, model_.ffn + j) * silu_slope(wide(t, j));
          d(t, model_.ffn + j) = dy(t, j) * silu(wide(t, j));
        }
      }
    }
    return d;
  }

  const Model& model_;
  const Parameters& parameters_;
  const Sequence& sequence_;
  std::size_t length_;
  Heads heads_;
  std::string mlp_wide_;
  std::vector<BlockActivations> blocks_;
  Matrix blocks_output_{0, 0};
  Matrix final_{0, 0};
  Matrix probabilities_{0, 0};
};

}  // namespace

double loss_sum(const Model& model, const Parameters& parameters, const Sequence& sequence) {
  return Pass(model, parameters, sequence).forward();
}

double loss_sum_and_gradient(const Model& model, const Parameters& parameters, const Sequence& sequence, double scale,
                             Parameters& gradient) {
  Pass pass(model, parameters, sequence);
  const double total = pass.forward();
  pass.backward(scale, gradient);
  return total;
}

Parameters zeros_like(const Parameters& parameters) {
  Parameters result;
  for (const auto& [name, tensor] : parameters)
    result.emplace(name, zeros(tensor.shape));
  return result;
}

}  // namespace oracle

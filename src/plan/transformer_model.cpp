#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/plan/transformer.hpp>

namespace matrixfsdp {
namespace {

constexpr double deviation = 0.02;

class Builder {
 public:
  Builder(const TransformerShape& shape, UnitSpec& unit) : shape_(shape), unit_(unit) {}

  ParameterSpec& matrix(const std::string& name, std::int64_t out, std::int64_t in, double standard_deviation) {
    ParameterSpec& parameter = add(name, {out, in});
    parameter.initialization.standard_deviation = standard_deviation;
    return parameter;
  }

  ParameterSpec& embedding(const std::string& name, std::int64_t rows) {
    ParameterSpec& parameter = matrix(name, rows, shape_.hidden, deviation);
    parameter.embedding = true;
    return parameter;
  }

  void bias(const std::string& name, std::int64_t size) {
    if (gpt2()) add(name, {size}).initialization.kind = Initialization::Kind::zeros;
  }

  void norm(const std::string& name) {
    add(name + ".weight", {shape_.hidden}).initialization.kind = Initialization::Kind::ones;
    bias(name + ".bias", shape_.hidden);
  }

  [[nodiscard]] bool gpt2() const { return shape_.style == TransformerStyle::gpt2; }

 private:
  ParameterSpec& add(const std::string& name, Shape shape) {
    ParameterSpec& parameter = unit_.parameters.emplace_back();
    parameter.name = name;
    parameter.shape = std::move(shape);
    return parameter;
  }

  const TransformerShape& shape_;
  UnitSpec& unit_;
};

UnitSpec root_unit(const TransformerShape& shape) {
  UnitSpec unit{"root", {}, true};
  Builder build(shape, unit);
  build.embedding("token_embedding", shape.vocabulary);
  if (build.gpt2()) build.embedding("position_embedding", shape.sequence_length);
  build.norm("final_norm");
  if (!shape.tied_head) {
    build.matrix("head.weight", shape.vocabulary, shape.hidden, deviation).kind = ParameterKind::tail;
  }
  return unit;
}

UnitSpec block_unit(const TransformerShape& shape, std::int64_t index) {
  UnitSpec unit{fmt::format("block.{}", index), {}, false};
  Builder build(shape, unit);
  const std::string prefix = unit.name + ".";
  const std::int64_t hidden = shape.hidden;
  const std::int64_t kv = shape.kv_heads * shape.head_dimension();
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(shape.layers));

  build.norm(prefix + "attention_norm");
  build.matrix(prefix + "attention.qkv", hidden + 2 * kv, hidden, deviation).blocks = {
      0, {"query", "key", "value"}, {hidden, kv, kv}};
  build.bias(prefix + "attention.qkv_bias", hidden + 2 * kv);
  build.matrix(prefix + "attention.output", hidden, hidden, residual);
  build.bias(prefix + "attention.output_bias", hidden);
  build.norm(prefix + "mlp_norm");
  if (build.gpt2()) {
    build.matrix(prefix + "mlp.up", shape.ffn, hidden, deviation);
    build.bias(prefix + "mlp.up_bias", shape.ffn);
  } else {
    build.matrix(prefix + "mlp.gate_up", 2 * shape.ffn, hidden, deviation).blocks = {
        0, {"gate", "up"}, {shape.ffn, shape.ffn}};
  }
  build.matrix(prefix + "mlp.down", hidden, shape.ffn, residual);
  build.bias(prefix + "mlp.down_bias", hidden);
  return unit;
}

}  // namespace

ModelSpec transformer_model(const TransformerShape& shape) {
  validate(shape);
  ModelSpec model;
  model.units.push_back(root_unit(shape));
  for (std::int64_t layer = 0; layer < shape.layers; ++layer)
    model.units.push_back(block_unit(shape, layer));
  if (shape.tied_head) model.tied.push_back({"head.weight", "token_embedding"});
  return model;
}

}  // namespace matrixfsdp

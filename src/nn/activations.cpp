#include "nn/activations.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::nn::detail {
namespace {

void expect_positive(const char* name, std::int64_t value) {
  if (value < 1) throw InputError(fmt::format("{} {}: expected at least 1", name, value));
}

}  // namespace

PassShape::PassShape(const TransformerShape& shape, const TransformerOptions& options) : model(shape) {
  validate(shape);
  expect_positive("micro batch", options.micro_batch);
  expect_positive("token block", options.token_block);
  expect_positive("query block", options.query_block);
  const std::int64_t length = options.sequence_length == 0 ? shape.sequence_length : options.sequence_length;
  if (length < 1 || length > shape.sequence_length) {
    throw InputError(fmt::format("sequence length {}: expected 1 to {}, the model's", length, shape.sequence_length));
  }
  const bool gpt2 = shape.style == TransformerStyle::gpt2;
  attention = {options.micro_batch, length, shape.heads, gpt2 ? shape.heads : shape.kv_heads, shape.head_dimension(),
               options.query_block};
  tokens = attention.tokens();
  token_block = std::min(options.token_block, tokens);
  inner_width = gpt2 ? shape.ffn : 2 * shape.ffn;
  with_mean = gpt2;
}

template <class T>
Activations<T>::Activations(const PassShape& shape, bool recompute) : shape_(shape) {
  const std::int64_t n = shape.tokens;
  const std::int64_t hidden = shape.model.hidden;
  const std::int64_t rows_of_heads = n * shape.model.heads;
  stream_ = allocate<T>("stream", (shape.model.layers + 1) * n * hidden);
  blocks_.resize(recompute ? 1 : static_cast<std::size_t>(shape.model.layers));
  for (BlockActivations<T>& block : blocks_) {
    block.attention_norm = allocate_norm("attention_norm");
    block.qkv = allocate<T>("qkv", n * shape.attention.qkv_width());
    block.log_sum = allocate<T>("log_sum", rows_of_heads);
    block.attention = allocate<T>("attention", n * hidden);
    block.middle = allocate<T>("middle", n * hidden);
    block.mlp_norm = allocate_norm("mlp_norm");
    block.inner = allocate<T>("inner", n * shape.inner_width);
  }
  final_norm = allocate_norm("final_norm");
  gradient_ = allocate<T>("gradient", n * hidden);
  normalized_ = allocate<T>("normalized", n * hidden);
  narrow_gradient_ = allocate<T>("narrow_gradient", n * hidden);
  wide_ = allocate<T>("wide", std::max({n * shape.model.ffn, n * shape.attention.qkv_width(),
                                        shape.token_block * shape.model.vocabulary}));
  delta = allocate<T>("delta", rows_of_heads);
  attention_scratch = allocate<T>("attention_scratch", shape.attention.scratch_elements());
  tokens = allocate<std::int32_t>("tokens", n);
  targets = allocate<std::int32_t>("targets", n);
  losses = allocate<double>("losses", n);
  if (shape.model.style == TransformerStyle::llama) {
    rotary.emplace(shape.attention.sequence_length, shape.attention.head_dimension);
    bytes_ += rotary->bytes();
  }
}

template <class T>
template <class U>
Tensor<U> Activations<T>::allocate(const std::string& name, std::int64_t count) {
  bytes_ += count * static_cast<std::int64_t>(sizeof(U));
  return make_tensor<U>("matrixfsdp::nn::" + name, count);
}

template <class T>
NormActivations<T> Activations<T>::allocate_norm(const std::string& name) {
  NormActivations<T> result;
  if (shape_.with_mean) result.mean = allocate<T>(name + "_mean", shape_.tokens);
  result.inverse = allocate<T>(name + "_inverse", shape_.tokens);
  return result;
}

template class Activations<float>;
template class Activations<double>;

}  // namespace matrixfsdp::nn::detail

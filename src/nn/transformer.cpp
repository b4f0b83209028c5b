#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/cross_entropy.hpp>
#include <matrixfsdp/nn/embedding.hpp>
#include <matrixfsdp/nn/linear.hpp>
#include <matrixfsdp/nn/transformer.hpp>

#include "nn/block.hpp"
#include "nn/norm.hpp"

namespace matrixfsdp::nn {

template <class T>
struct Transformer<T>::Implementation {
  detail::PassShape shape;
  ModelSpec model;
  bool recompute;
  detail::Activations<T> activations;
  Products products;
  // Blocks that have run since embed; -1: there was no embed, or its activations are used up.
  std::int64_t forward_done = -1;
  // Blocks whose backward is still to come; -1: no gradient is on its way.
  std::int64_t backward_left = -1;
  // With recomputation: the block whose activations are in the one place for them.
  std::int64_t kept_layer = -1;

  Implementation(const TransformerShape& transformer_shape, const TransformerOptions& options)
      : shape(transformer_shape, options),
        model(transformer_model(transformer_shape)),
        recompute(options.recompute),
        activations(shape, options.recompute),
        products(options.compute) {
    products.reserve(rounded_operand_elements(shape.model, shape.tokens, shape.token_block));
    if (options.compute != DType::float32 && !std::is_same_v<T, float>)
      throw InputError("transformer of double: expected to compute in its own type");
  }

  [[nodiscard]] std::int64_t layers() const { return shape.model.layers; }
  [[nodiscard]] const UnitSpec& root_unit() const { return model.units.front(); }
  [[nodiscard]] const UnitSpec& block_unit(std::int64_t layer) const {
    return model.units[static_cast<std::size_t>(layer) + 1];
  }
  [[nodiscard]] MatrixView<T> embedding_matrix(const TensorView<T>& table) const {
    const std::int64_t hidden = shape.model.hidden;
    if (table.extent(0) == 0) return {};  // not there, or frozen
    return {table.data(), static_cast<std::int64_t>(table.extent(0)) / hidden, hidden};
  }

  void expect_forward(const char* operation) const {
    if (forward_done != layers()) {
      throw ContractError(fmt::format("{}: {} of {} blocks have run forward, expected all", operation,
                                      std::max<std::int64_t>(0, forward_done), layers()));
    }
  }

  void take_ids(const char* what, const std::vector<std::int32_t>& ids, const Tensor<std::int32_t>& into) const {
    if (static_cast<std::int64_t>(ids.size()) != shape.tokens) {
      throw ContractError(fmt::format("{}: {} ids, expected {} ({} sequences of {})", what, ids.size(), shape.tokens,
                                      shape.attention.sequences, shape.attention.sequence_length));
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] < 0 || ids[i] >= shape.model.vocabulary) {
        throw InputError(
            fmt::format("{}: id {} at position {}, expected 0 to {}", what, ids[i], i, shape.model.vocabulary - 1));
      }
    }
    std::copy(ids.begin(), ids.end(), into.data());
  }

  void final_norm(const detail::RootTensors<T>& root) {
    detail::norm_forward<T>(shape, activations.stream(layers()), root.final_norm, root.final_norm_bias,
                            activations.final_norm, activations.normalized());
    products.poll();
  }
};

template <class T>
Transformer<T>::Transformer(const TransformerShape& shape, const TransformerOptions& options)
    : implementation_(std::make_unique<Implementation>(shape, options)) {}

template <class T>
Transformer<T>::~Transformer() = default;

template <class T>
void Transformer<T>::embed(const UnitTensors<T>& root, const std::vector<std::int32_t>& tokens) {
  Implementation& me = *implementation_;
  detail::check_unit(me.root_unit(), root, detail::TensorRole::weight);
  me.take_ids("tokens", tokens, me.activations.tokens);
  const detail::RootTensors<T> weights(me.shape.model, root);
  embedding_forward<T>(me.activations.tokens, me.embedding_matrix(weights.token_embedding),
                       me.embedding_matrix(weights.position_embedding), me.shape.attention.sequence_length,
                       me.activations.stream(0));
  me.forward_done = 0;
  me.backward_left = -1;
  me.products.poll();
}

template <class T>
void Transformer<T>::block_forward(std::int64_t layer, const UnitTensors<T>& weights) {
  Implementation& me = *implementation_;
  if (me.forward_done < 0 || layer != me.forward_done || layer >= me.layers()) {
    throw ContractError(fmt::format(
        "block_forward of layer {} of {}: {}", layer, me.layers(),
        me.forward_done < 0 ? std::string("expected embed first") : fmt::format("expected layer {}", me.forward_done)));
  }
  detail::check_unit(me.block_unit(layer), weights, detail::TensorRole::weight);
  const detail::BlockTensors<T> tensors(me.shape.model, weights);
  detail::block_forward_kept(me.shape, layer, tensors, me.activations, me.products);
  detail::block_forward_output(me.shape, layer, tensors, me.activations, me.products);
  me.kept_layer = layer;
  ++me.forward_done;
}

template <class T>
double Transformer<T>::loss(const UnitTensors<T>& root, const std::vector<std::int32_t>& targets) {
  Implementation& me = *implementation_;
  me.expect_forward("loss");
  detail::check_unit(me.root_unit(), root, detail::TensorRole::weight);
  me.take_ids("targets", targets, me.activations.targets);
  const detail::RootTensors<T> weights(me.shape.model, root);
  me.final_norm(weights);
  return linear_cross_entropy<T>(me.activations.normalized(), me.embedding_matrix(weights.head), me.activations.targets,
                                 me.activations.logits(), me.activations.losses, me.products);
}

template <class T>
double Transformer<T>::loss_forward_backward(const UnitTensors<T>& root, UnitTensors<T>& root_gradient,
                                             const std::vector<std::int32_t>& targets, T scale) {
  Implementation& me = *implementation_;
  detail::Activations<T>& a = me.activations;
  me.expect_forward("loss_forward_backward");
  if (me.backward_left >= 0) throw ContractError("loss_forward_backward: called twice, expected embed in between");
  detail::check_unit(me.root_unit(), root, detail::TensorRole::weight);
  detail::check_unit(me.root_unit(), root_gradient, detail::TensorRole::gradient);
  me.take_ids("targets", targets, a.targets);
  const detail::RootTensors<T> weights(me.shape.model, root);
  const detail::RootTensors<T> gradients(me.shape.model, root_gradient);
  me.final_norm(weights);
  const double sum =
      linear_cross_entropy_backward<T>(a.normalized(), me.embedding_matrix(weights.head), a.targets, scale,
                                       a.narrow_gradient(), gradients.head, a.logits(), a.losses, me.products);
  detail::norm_backward<T>(me.shape, a.stream(me.layers()), weights.final_norm, a.final_norm, a.narrow_gradient(),
                           MatrixView<const T>(), a.gradient(), gradients.final_norm, gradients.final_norm_bias);
  me.backward_left = me.layers();
  me.products.poll();
  return sum;
}

template <class T>
void Transformer<T>::block_backward(std::int64_t layer, const UnitTensors<T>& weights, UnitTensors<T>& gradient) {
  Implementation& me = *implementation_;
  if (me.backward_left < 1 || layer != me.backward_left - 1) {
    throw ContractError(fmt::format("block_backward of layer {} of {}: {}", layer, me.layers(),
                                    me.backward_left < 1
                                        ? std::string("no gradient is waiting, expected loss_forward_backward first")
                                        : fmt::format("expected layer {}", me.backward_left - 1)));
  }
  detail::check_unit(me.block_unit(layer), weights, detail::TensorRole::weight);
  detail::check_unit(me.block_unit(layer), gradient, detail::TensorRole::gradient);
  const detail::BlockTensors<T> tensors(me.shape.model, weights);
  if (me.recompute && me.kept_layer != layer) {
    const Products::Recomputation again(me.products);
    detail::block_forward_kept(me.shape, layer, tensors, me.activations, me.products);
  }
  detail::block_backward(me.shape, layer, tensors, detail::BlockTensors<T>(me.shape.model, gradient), me.activations,
                         me.products);
  me.kept_layer = -1;
  me.forward_done = -1;
  --me.backward_left;
}

template <class T>
void Transformer<T>::embed_backward(UnitTensors<T>& root_gradient, const std::vector<std::int32_t>& tokens) {
  Implementation& me = *implementation_;
  if (me.backward_left != 0) {
    throw ContractError(fmt::format("embed_backward: {} of {} blocks have run backward, expected all",
                                    me.backward_left < 0 ? 0 : me.layers() - me.backward_left, me.layers()));
  }
  detail::check_unit(me.root_unit(), root_gradient, detail::TensorRole::gradient);
  me.take_ids("tokens", tokens, me.activations.tokens);
  const detail::RootTensors<T> gradients(me.shape.model, root_gradient);
  embedding_backward<T>(me.activations.tokens, me.activations.gradient(), me.shape.attention.sequence_length,
                        me.embedding_matrix(gradients.token_embedding),
                        me.embedding_matrix(gradients.position_embedding));
  me.backward_left = -1;
  me.products.poll();
}

template <class T>
void Transformer<T>::logits(const UnitTensors<T>& root, std::int64_t position, Tensor<T>& logits) {
  Implementation& me = *implementation_;
  detail::Activations<T>& a = me.activations;
  const std::int64_t sequences = me.shape.attention.sequences;
  const std::int64_t length = me.shape.attention.sequence_length;
  const std::int64_t hidden = me.shape.model.hidden;
  const std::int64_t vocabulary = me.shape.model.vocabulary;
  me.expect_forward("logits");
  detail::check_unit(me.root_unit(), root, detail::TensorRole::weight);
  if (position < 0 || position >= length) {
    throw ContractError(fmt::format("logits: position {}, expected 0 to {}", position, length - 1));
  }
  if (static_cast<std::int64_t>(logits.extent(0)) != sequences * vocabulary) {
    throw ContractError(fmt::format("logits: tensor of {} elements, expected {} ({} sequences by {} tokens)",
                                    logits.extent(0), sequences * vocabulary, sequences, vocabulary));
  }
  const detail::RootTensors<T> weights(me.shape.model, root);
  const MatrixView<const T> last(a.stream(me.layers()).data + position * hidden, sequences, hidden, length * hidden);
  const MatrixView<T> normalized = a.normalized().row_block(0, sequences);
  detail::norm_forward<T>(me.shape, last, weights.final_norm, weights.final_norm_bias, a.final_norm, normalized);
  const MatrixView<T> head = me.embedding_matrix(weights.head);
  const Products::Held held(me.products, MatrixView<const T>(head));
  linear_forward<T>(normalized, head, TensorView<T>(), MatrixView<T>(logits.data(), sequences, vocabulary),
                    me.products);
}

template <class T>
std::int64_t Transformer<T>::activation_bytes() const {
  return implementation_->activations.bytes() + implementation_->products.bytes();
}

template <class T>
std::int64_t Transformer<T>::product_flops() const {
  return implementation_->products.flops();
}

template <class T>
std::int64_t Transformer<T>::recompute_flops() const {
  return implementation_->products.recompute_flops();
}

template <class T>
void Transformer<T>::set_poll(std::function<void()> poll) {
  implementation_->products.set_poll(std::move(poll));
}

template class Transformer<float>;
template class Transformer<double>;

}  // namespace matrixfsdp::nn

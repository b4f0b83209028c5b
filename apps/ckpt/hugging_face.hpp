#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/transformer.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

/// Names and layouts of GPT-2 and Llama in Hugging Face's transformers. Biases, norms and embeddings are the same
/// there. GPT-2's Conv1D weights are (in, out), ours (out, in); its c_attn has query, key and value side by side, as
/// our qkv has them one below the other. Llama has a matrix each where ours are fused by rows (query, key, value; gate,
/// up). The rotary layout is the same (nn/rotary.hpp). A tied head has no tensor of its own.
namespace matrixfsdp::ckpt {

/// A tensor of theirs, and the elements of a parameter of ours that it holds.
struct ForeignTensor {
  std::string name;
  Shape shape;
  std::string parameter;
  Interval elements;
  bool transposed = false;  ///< ours is (shape[1], shape[0])

  /// Element of our parameter that is element `i` of theirs.
  [[nodiscard]] std::int64_t index(std::int64_t i) const {
    return elements.begin + (transposed ? i % shape[1] * shape[0] + i / shape[1] : i);
  }
};

/// All parameters under our own names.
std::vector<ForeignTensor> own_tensors(const ModelSpec& model);

/// Of the models that transformer_model makes, in our order. Throws InputError that names the first parameter that has
/// no place there.
std::vector<ForeignTensor> hugging_face_tensors(const ModelSpec& model);

/// True for tensors that hold no parameter: causal masks, rotary frequencies.
bool is_hugging_face_buffer(const std::string& name);

/// Names of a GPT-2 file have the prefix "transformer." or none: those without it are given it.
std::string full_hugging_face_name(const std::string& name);

/// The shape of the model that such a file holds, from the shapes of its tensors (by full name). Heads are not to be
/// seen there: any number that fits is put, because parameters do not depend on it. Throws InputError, naming the
/// tensor that is missing or does not fit.
TransformerShape infer_transformer(const std::vector<io::SafetensorsEntry>& tensors, const std::string& source);

}  // namespace matrixfsdp::ckpt

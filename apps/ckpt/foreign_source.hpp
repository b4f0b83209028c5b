#pragma once

#include <map>
#include <string>
#include <vector>

#include <matrixfsdp/schema/checkpoint_writer.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

#include "apps/ckpt/command_line.hpp"
#include "apps/ckpt/hugging_face.hpp"

namespace matrixfsdp::ckpt {

/// The parameters of safetensors files in float32, and optimizer state of zeros.
class ForeignSource : public io::TensorSource {
 public:
  /// Reads the headers. Throws InputError unless the files hold every parameter of the model in its shape, in F32, F16
  /// or BF16, and nothing else; a second tensor for a tied head must have the bits of the first.
  explicit ForeignSource(const Command& command);

  /// Of the files' metadata, else what the shapes of a GPT-2 or Llama say.
  [[nodiscard]] const ModelSpec& model() const { return model_; }

  std::vector<io::TensorKind> kinds(const ParameterSpec& parameter) override;
  void read(const ParameterSpec& parameter, const io::TensorKind& kind, std::span<std::byte> values) override;

 private:
  struct Place {
    const io::SafetensorsReader* reader = nullptr;
    const io::SafetensorsEntry* entry = nullptr;
  };

  void find_tensors();
  void find_model(const Command& command);
  void match_tensors();
  void check_tied_head(const std::string& name) const;
  [[nodiscard]] const Place& place_of(const ForeignTensor& tensor) const;

  StateOptimizer optimizer_;
  bool hugging_face_ = false;
  std::vector<io::SafetensorsReader> readers_;
  std::map<std::string, Place> places_;  // by full name
  ModelSpec model_;
  std::map<std::string, std::vector<ForeignTensor>> tensors_;  // of each parameter
};

}  // namespace matrixfsdp::ckpt

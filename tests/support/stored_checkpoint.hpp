#pragma once

#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/checkpoint_writer.hpp>

#include "support/small_models.hpp"

/// Checkpoints without a run: values are a function of seed, name and element.
namespace matrixfsdp::testing {

/// small_model with a parameter without elements, a scalar, and a tied name.
inline ModelSpec checkpoint_model() {
  ModelSpec model = small_model(2);
  model.units[0].parameters.push_back(parameter("nothing", {0, 8}));
  model.units[0].parameters.push_back(parameter("temperature", {}));
  model.tied.push_back({"head", "table"});
  return model;
}

inline float stored_value(std::uint64_t seed, const std::string& name, const std::string& what, std::int64_t element) {
  const CounterRandom random(seed, stream_of(name + "/" + what));
  return static_cast<float>(random.uniform(static_cast<std::uint64_t>(element))) + 0.125F;
}

/// Every weight and the state of Muon, or AdamW for everything.
class FormulaSource : public io::TensorSource {
 public:
  explicit FormulaSource(std::uint64_t seed, bool muon = true) : seed_(seed), muon_(muon) {}

  std::vector<io::TensorKind> kinds(const ParameterSpec& parameter) override {
    std::vector<io::TensorKind> kinds{{"weight", ""}};
    if (parameter.frozen || element_count(parameter.shape) == 0) return kinds;
    if (muon_ && kind_of(parameter) == ParameterKind::matrix) {
      kinds.push_back({"momentum", "muon"});
    } else {
      kinds.push_back({"first_moment", "adamw"});
      kinds.push_back({"second_moment", "adamw"});
    }
    return kinds;
  }

  void read(const ParameterSpec& parameter, const io::TensorKind& kind, std::span<std::byte> values) override {
    for (std::size_t i = 0; i < values.size() / sizeof(float); ++i) {
      const float value = stored_value(seed_, parameter.name, kind.what, static_cast<std::int64_t>(i));
      std::memcpy(values.data() + i * sizeof value, &value, sizeof value);
    }
  }

 private:
  std::uint64_t seed_;
  bool muon_;
};

/// FOLDER/step_N as `ranks` ranks would have saved it. Returns the new folder.
inline std::string store_checkpoint(const std::string& folder, const ModelSpec& model, int ranks,
                                    std::int64_t step = 12, std::uint64_t seed = 1) {
  io::Manifest manifest;
  manifest.state = {step, step - 1, 7, step, R"({"kind":"cosine"})", R"({"lr":0.1})"};
  manifest.state.loss = 2.5;
  manifest.model = model;
  FormulaSource source(seed);
  return io::write_checkpoint(folder, std::move(manifest), make_plan(model, ranks), source);
}

/// A tensor of a checkpoint, whole.
inline std::vector<float> stored_tensor(io::CheckpointReader& reader, const std::string& name,
                                        const std::string& what) {
  std::vector<float> values(static_cast<std::size_t>(reader.elements(name)));
  reader.read(name, what, [&](std::int64_t first, std::span<const std::byte> block) {
    std::memcpy(values.data() + first, block.data(), block.size());
  });
  return values;
}

}  // namespace matrixfsdp::testing

#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/plan/plan.hpp>
#include <matrixfsdp/schema/manifest.hpp>

/// @file
/// A checkpoint that one process writes, laid out as the ranks of a plan would have saved it.
namespace matrixfsdp::io {

/// A weight or an optimizer state of a parameter.
struct TensorKind {
  /// "weight", or the name of an optimizer state.
  std::string what;
  std::string optimizer;  ///< empty for weights
  /// As it is stored.
  DType dtype = DType::float32;
  std::optional<Shape> shape = {};  ///< of a state that has not its parameter's extents
};

/// Where the values come from.
class TensorSource {
 public:
  virtual ~TensorSource() = default;

  /// The weight first, then the states by name.
  virtual std::vector<TensorKind> kinds(const ParameterSpec& parameter) = 0;
  /// Fills `values` with all elements of the tensor.
  virtual void read(const ParameterSpec& parameter, const TensorKind& kind, std::span<std::byte> values) = 0;
};

/// Writes FOLDER/step_N, N = manifest.state.step, for the model of `manifest` as `plan` lays it out, and points
/// FOLDER/latest to it. `manifest` brings training state and model; planner, world size, files and segments are filled
/// in here. Appears whole or not at all, as a save does. Holds the largest tensor once, and files of a few ranks at a
/// time: each tensor is read once for every 32 ranks among which it is cut. Throws InputError unless the folder is
/// missing or empty; IoError where the disk fails; what `source` throws. Returns the new folder.
std::string write_checkpoint(const std::string& folder, Manifest manifest, const Plan& plan, TensorSource& source);

}  // namespace matrixfsdp::io

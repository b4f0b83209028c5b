#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/schema/files.hpp>

/// @file
/// The manifest of a checkpoint: what it holds and where (io/FORMAT.md).
namespace matrixfsdp::io {

/// Field "format" of every manifest.
inline constexpr std::string_view checkpoint_format = "matrixfsdp checkpoint";
/// Field "format_version": the only one that is written and read.
inline constexpr int format_version = 2;
/// Name of the manifest within a checkpoint.
inline constexpr std::string_view manifest_name = "manifest.json";
/// StoredSegment::what of a parameter itself.
inline constexpr std::string_view weight_name = "weight";

/// Everything besides tensors that a run needs in order to continue as if it had not stopped.
struct TrainingState {
  std::int64_t step = 0;             ///< steps done, skipped ones too: training continues with step + 1
  std::int64_t optimizer_steps = 0;  ///< steps that changed weights (AdamW's t)
  std::uint64_t seed = 1;            ///< all random numbers are counter-based: there is no other random state
  std::int64_t data_step = 0;        ///< of Batches: the next step's sequences are those of data_step
  std::string schedule = "{}";       ///< a JSON object: the learning-rate schedule
  std::string configuration = "{}";  ///< a JSON object: the program's own
  std::int64_t sum_group = 1;        ///< consecutive micro-batches whose gradients are summed before the groups' sums
  std::optional<double> loss = {};   ///< of the last step, where the program knows it
};

/// A dataset: elements [begin, end) of a parameter's weight or optimizer state.
struct StoredSegment {
  /// Name in the model.
  std::string parameter;
  std::string what;  ///< "weight", or the name of an optimizer state
  /// Name of the file within the checkpoint.
  std::string file;
  /// Path within the file: dataset_path.
  std::string dataset;
  /// Within the parameter.
  Interval elements;
  /// As it is stored.
  DType dtype = DType::float32;
  /// Of the elements.
  std::int64_t bytes = 0;
  /// Of the elements: checksum_of.
  std::uint64_t checksum = 0;
  std::string optimizer = {};       ///< whose state it is ("muon", "shampoo", "soap", "adamw"); empty for weights
  std::optional<Shape> shape = {};  ///< of a state that has not its parameter's extents: it is one segment

  /// Extents of the whole tensor, where the parameter has those given.
  [[nodiscard]] const Shape& whole_shape(const Shape& extents) const { return shape ? *shape : extents; }
};

/// All of a manifest.json.
struct Manifest {
  /// How far the run was.
  TrainingState state;
  /// Of the run, with every name that segments use.
  ModelSpec model;
  /// Plan::planner of the run that wrote it. No reader needs it.
  std::string planner;
  /// Ranks of the plan that wrote it. No reader needs it.
  int world_size = 1;
  /// Plan::replicated of the run that wrote it. No reader needs it.
  bool replicated = false;
  /// Every file of the checkpoint but the manifest.
  std::vector<StoredFile> files;
  std::vector<StoredSegment> segments;  ///< in the model's order; of one parameter by what, then begin
};

/// What one rank adds to the manifest: its file and the segments in it. Nothing: no file.
struct ManifestPart {
  std::vector<StoredFile> files;        ///< one, or none
  std::vector<StoredSegment> segments;  ///< of that file
};

/// Text of a part, to be sent to the rank that writes the manifest. Throws IoError for a name that is not UTF-8.
std::string to_text(const ManifestPart& part);
/// Inverse of to_text. Throws IoError naming the field.
ManifestPart parse_manifest_part(const std::string& text);

/// Puts the parts' segments in canonical order into the manifest.
void add_parts(Manifest& manifest, const std::vector<ManifestPart>& parts);

/// Throws IoError, naming the field, parameter or file (`source`: the manifest's path), unless: the model is valid;
/// every segment belongs to a parameter of the model and a listed file, lies inside the parameter and has the bytes
/// that follow; every element of every weight, and of every state that occurs, is stored exactly once, in datasets with
/// the names that dataset_path gives them; states name their optimizer, weights none; a state with extents of its own
/// is one segment; no frozen parameter has state;
/// counts are not negative; schedule and configuration are JSON objects.
void validate(const Manifest& manifest, const std::string& source);

/// Text of manifest.json. Validates first, and throws IoError as validate does, and for a name that is not UTF-8.
std::string to_text(const Manifest& manifest);

/// Reads and validates the text of a manifest: strict, every field must be there, of its type and range, and no other.
/// Throws IoError.
Manifest parse_manifest(const std::string& text, const std::string& source);

/// parse_manifest of FOLDER/manifest.json. Throws IoError where it cannot be read.
Manifest read_manifest(const std::string& folder);

}  // namespace matrixfsdp::io

#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <matrixfsdp/schema/manifest.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

/// @file
/// Reading a checkpoint without a model: nothing here writes.
namespace matrixfsdp::io {

/// Segments of each tensor, by (parameter, what), from first element to last. Points into the manifest.
using StoredTensors = std::map<std::pair<std::string_view, std::string_view>, std::vector<const StoredSegment*>>;
/// Of all segments of `manifest`, which must outlive the result.
StoredTensors stored_tensors(const Manifest& manifest);

/// The parameter specifications of a model by name. Points into the model.
std::map<std::string_view, const ParameterSpec*> parameters_of(const ModelSpec& model);

/// Passes the elements of one segment of a parameter of shape `shape` to `sink`, as TensorFileReader::read. Throws
/// IoError unless the dataset's attributes and checksum are what the manifest says; `sink` may have seen damaged values
/// then.
void read_segment(const TensorFileReader& reader, const StoredSegment& segment, const Shape& shape,
                  const TensorFileReader::Sink& sink);

/// One checkpoint, read by one process. A file is opened only after its size and content have been verified once.
class CheckpointReader {
 public:
  /// Reads the manifest. Throws IoError as read_manifest.
  explicit CheckpointReader(std::string step_folder);

  /// Of the step.
  [[nodiscard]] const std::string& folder() const { return folder_; }
  /// What the checkpoint says of itself; valid as long as the reader.
  [[nodiscard]] const Manifest& manifest() const { return manifest_; }
  /// All tensors that it holds; valid as long as the reader.
  [[nodiscard]] const StoredTensors& tensors() const { return tensors_; }
  /// Specification of a parameter of the checkpoint's model. Throws std::out_of_range for any other name.
  [[nodiscard]] const ParameterSpec& parameter(std::string_view name) const { return *parameters_.at(name); }

  /// Type of a tensor's elements.
  [[nodiscard]] DType dtype(const std::string& parameter, const std::string& what) const;
  /// Extents of the whole tensor.
  [[nodiscard]] const Shape& shape(const std::string& parameter, const std::string& what) const;
  /// Elements of the parameter itself.
  [[nodiscard]] std::int64_t elements(const std::string& parameter) const;

  /// Throws IoError unless the file, which is listed, has the size and content that the manifest says.
  void verify(const StoredFile& file);

  /// Passes one segment to `sink`, which gets the index of the first of its values within the parameter.
  void read(const StoredSegment& segment, const TensorFileReader::Sink& sink);
  /// All segments of a tensor of the checkpoint, from the first element to the last.
  void read(const std::string& parameter, const std::string& what, const TensorFileReader::Sink& sink);

 private:
  std::string folder_;
  Manifest manifest_;
  StoredTensors tensors_;
  std::map<std::string_view, const ParameterSpec*> parameters_;
  std::map<std::string_view, const StoredFile*> files_;
  std::set<std::string_view> verified_;
  std::unique_ptr<TensorFileReader> open_;  // the file that was read last
  std::string_view open_name_;
};

}  // namespace matrixfsdp::io

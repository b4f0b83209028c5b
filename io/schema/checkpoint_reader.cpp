#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>
#include <matrixfsdp/schema/checksum.hpp>

namespace matrixfsdp::io {
namespace {

/// The file itself must say what the manifest says.
void check_attributes(const StoredSegment& segment, const Shape& shape, const TensorInfo& info) {
  if (info.dtype != segment.dtype || info.global_shape != shape || info.elements != segment.elements ||
      info.optimizer != segment.optimizer) {
    throw IoError(fmt::format(
        "'{}', dataset '{}': {} elements [{}, {}) of {}, optimizer '{}'; the manifest says {} elements [{}, {}) of {}, "
        "optimizer '{}'",
        segment.file, segment.dataset, name_of(info.dtype), info.elements.begin, info.elements.end,
        to_string(info.global_shape), info.optimizer, name_of(segment.dtype), segment.elements.begin,
        segment.elements.end, to_string(shape), segment.optimizer));
  }
}

}  // namespace

StoredTensors stored_tensors(const Manifest& manifest) {
  StoredTensors tensors;
  for (const StoredSegment& segment : manifest.segments)
    tensors[{segment.parameter, segment.what}].push_back(&segment);
  return tensors;
}

std::map<std::string_view, const ParameterSpec*> parameters_of(const ModelSpec& model) {
  std::map<std::string_view, const ParameterSpec*> parameters;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters)
      parameters.emplace(parameter.name, &parameter);
  }
  return parameters;
}

void read_segment(const TensorFileReader& reader, const StoredSegment& segment, const Shape& shape,
                  const TensorFileReader::Sink& sink) {
  check_attributes(segment, segment.whole_shape(shape), reader.info(segment.dataset));
  const std::uint64_t checksum = reader.read(segment.dataset, sink);
  if (checksum != segment.checksum) {
    throw IoError(fmt::format("'{}', dataset '{}': checksum {}; the manifest says {}", segment.file, segment.dataset,
                              checksum_text(checksum), checksum_text(segment.checksum)));
  }
}

CheckpointReader::CheckpointReader(std::string step_folder)
    : folder_(std::move(step_folder)),
      manifest_(read_manifest(folder_)),
      tensors_(stored_tensors(manifest_)),
      parameters_(parameters_of(manifest_.model)) {
  for (const StoredFile& file : manifest_.files)
    files_.emplace(file.name, &file);
}

DType CheckpointReader::dtype(const std::string& parameter, const std::string& what) const {
  return tensors_.at({parameter, what}).front()->dtype;
}

const Shape& CheckpointReader::shape(const std::string& parameter, const std::string& what) const {
  return tensors_.at({parameter, what}).front()->whole_shape(parameters_.at(parameter)->shape);
}

std::int64_t CheckpointReader::elements(const std::string& parameter) const {
  return element_count(parameters_.at(parameter)->shape);
}

void CheckpointReader::verify(const StoredFile& file) {
  if (verified_.contains(file.name)) return;
  verify_file(folder_, file);
  verified_.insert(file.name);
}

void CheckpointReader::read(const StoredSegment& segment, const TensorFileReader::Sink& sink) {
  if (open_ == nullptr || open_name_ != segment.file) {
    verify(*files_.at(segment.file));
    open_ = std::make_unique<TensorFileReader>(folder_ + "/" + segment.file);
    open_name_ = segment.file;
  }
  read_segment(
      *open_, segment, parameters_.at(segment.parameter)->shape,
      [&](std::int64_t first, std::span<const std::byte> values) { sink(segment.elements.begin + first, values); });
}

void CheckpointReader::read(const std::string& parameter, const std::string& what, const TensorFileReader::Sink& sink) {
  for (const StoredSegment* segment : tensors_.at({parameter, what}))
    read(*segment, sink);
}

}  // namespace matrixfsdp::io

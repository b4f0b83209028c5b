#include <utility>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

#include "io/schema/attributes.hpp"
#include "io/schema/new_file.hpp"

namespace matrixfsdp::io {
namespace {

Handle make_space(const TensorInfo& info, const Location& location) {
  const char* operation = "cannot describe the extents";
  if (info.whole() && info.global_shape.empty()) {
    return own(H5Screate(H5S_SCALAR), H5Sclose, location, operation);
  }
  std::vector<hsize_t> extents(info.global_shape.begin(), info.global_shape.end());
  if (!info.whole()) extents.assign(1, static_cast<hsize_t>(info.elements.size()));
  return own(H5Screate_simple(static_cast<int>(extents.size()), extents.data(), nullptr), H5Sclose, location,
             operation);
}

/// Contiguous; without times, so that equal tensors make equal files.
Handle make_properties(const Location& location) {
  const char* operation = "cannot describe the layout";
  Handle properties = own(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, location, operation);
  check(H5Pset_layout(properties.get(), H5D_CONTIGUOUS), location, operation);
  check(H5Pset_obj_track_times(properties.get(), false), location, operation);
  return properties;
}

}  // namespace

std::string dataset_path(const std::string& parameter, const std::string& what, std::int64_t segment) {
  std::string path =
      what == "weight" ? fmt::format("/parameters/{}", parameter) : fmt::format("/optimizer/{}/{}", parameter, what);
  if (segment >= 0) path += fmt::format("/segment.{}", segment);
  return path;
}

struct TensorFileWriter::Implementation {
  explicit Implementation(std::string path) : file(std::move(path)) {}

  NewFile file;
};

TensorFileWriter::TensorFileWriter(std::string path)
    : implementation_(std::make_unique<Implementation>(std::move(path))) {}

TensorFileWriter::~TensorFileWriter() = default;

std::uint64_t TensorFileWriter::write(const std::string& dataset, const TensorInfo& info,
                                      std::span<const std::byte> values) {
  const Location location{implementation_->file.path(), dataset};
  const std::int64_t elements = element_count(info.global_shape);
  if (info.elements.begin < 0 || info.elements.end < info.elements.begin || info.elements.end > elements) {
    throw ContractError(fmt::format("dataset '{}': elements [{}, {}): expected an interval of the {} elements of {}",
                                    dataset, info.elements.begin, info.elements.end, elements,
                                    to_string(info.global_shape)));
  }
  const auto bytes = static_cast<std::size_t>(info.elements.size()) * size_of(info.dtype);
  if (values.size() != bytes) {
    throw ContractError(fmt::format("dataset '{}': {} bytes for {} elements of {}", dataset, values.size(),
                                    info.elements.size(), name_of(info.dtype)));
  }
  std::uint64_t checksum = 0;
  implementation_->file.write([&] {
    const Handle type = element_type(info.dtype, location);
    const Handle space = make_space(info, location);
    Handle data = own(H5Dcreate2(implementation_->file.get(), dataset.c_str(), type.get(), space.get(),
                                 make_link_properties(location).get(), make_properties(location).get(), H5P_DEFAULT),
                      H5Dclose, location, "cannot be created");
    if (!values.empty()) {
      check(H5Dwrite(data.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()), location,
            "cannot be written");
      implementation_->file.send_to_disk();
    }
    checksum = checksum_of(values);
    write_attributes(data.get(), info, checksum, location);
    if (!data.close()) throw_hdf5(location, "cannot be closed");
  });
  return checksum;
}

void TensorFileWriter::close() {
  implementation_->file.close();
}

}  // namespace matrixfsdp::io

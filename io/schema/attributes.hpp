#pragma once

#include <matrixfsdp/schema/tensor_file.hpp>

#include "io/schema/hdf5.hpp"

namespace matrixfsdp::io {

/// Attributes of a dataset: dtype and checksum as text, global_shape, begin and end as 64-bit integers.
void write_attributes(hid_t dataset, const TensorInfo& info, std::uint64_t checksum, const Location& location);

struct Attributes {
  TensorInfo info;
  std::uint64_t checksum = 0;
};

/// Throws IoError where one is missing, of another type, or out of range.
Attributes read_attributes(hid_t dataset, const Location& location);

}  // namespace matrixfsdp::io

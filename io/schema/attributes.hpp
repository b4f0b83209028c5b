#pragma once

#include <cstdint>
#include <string_view>

#include <matrixfsdp/schema/tensor_file.hpp>

#include "io/schema/hdf5.hpp"

namespace matrixfsdp::io {

/// One attribute of an object: text that is not empty, or a 64-bit integer.
void write_text(hid_t object, const char* name, std::string_view text, const Location& location);
void write_integer(hid_t object, const char* name, std::int64_t value, const Location& location);

/// Attributes of a dataset: dtype, checksum and (of a state) optimizer as text, global_shape, begin and end as 64-bit
/// integers.
void write_attributes(hid_t dataset, const TensorInfo& info, std::uint64_t checksum, const Location& location);

struct Attributes {
  TensorInfo info;
  std::uint64_t checksum = 0;
};

/// Throws IoError where one is missing, of another type, or out of range.
Attributes read_attributes(hid_t dataset, const Location& location);

}  // namespace matrixfsdp::io

#include "io/schema/attributes.hpp"

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>

namespace matrixfsdp::io {
namespace {

[[noreturn]] void fail(const Location& location, const char* name, const std::string& found, const char* expected) {
  throw IoError(fmt::format("'{}', dataset '{}': attribute {} is {}; expected {}", location.path, location.dataset,
                            name, found, expected));
}

void write_attribute(hid_t dataset, const char* name, hid_t type, const Handle& space, const void* value,
                     const Location& location) {
  const char* operation = "cannot write an attribute";
  Handle attribute =
      own(H5Acreate2(dataset, name, type, space.get(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose, location, operation);
  check(H5Awrite(attribute.get(), type, value), location, operation);
  if (!attribute.close()) throw_hdf5(location, operation);
}

Handle open_attribute(hid_t dataset, const char* name, const Location& location) {
  if (check(H5Aexists(dataset, name), location, "cannot look for an attribute") == 0) {
    fail(location, name, "missing", "it to be there");
  }
  return own(H5Aopen(dataset, name, H5P_DEFAULT), H5Aclose, location, "cannot open an attribute");
}

std::string read_text(hid_t dataset, const char* name, const Location& location) {
  const Handle attribute = open_attribute(dataset, name, location);
  const Handle type = own(H5Aget_type(attribute.get()), H5Tclose, location, "cannot read an attribute");
  const Handle space = own(H5Aget_space(attribute.get()), H5Sclose, location, "cannot read an attribute");
  const std::size_t size = H5Tget_size(type.get());
  if (H5Tget_class(type.get()) != H5T_STRING || H5Tis_variable_str(type.get()) != 0 || size == 0 || size > 64 ||
      H5Sget_simple_extent_npoints(space.get()) != 1) {
    fail(location, name, "of another type", "text of fixed length");
  }
  std::string text(size, '\0');
  check(H5Aread(attribute.get(), type.get(), text.data()), location, "cannot read an attribute");
  return text;
}

std::vector<std::int64_t> read_integers(hid_t dataset, const char* name, const Location& location) {
  const Handle attribute = open_attribute(dataset, name, location);
  const Handle type = own(H5Aget_type(attribute.get()), H5Tclose, location, "cannot read an attribute");
  const Handle space = own(H5Aget_space(attribute.get()), H5Sclose, location, "cannot read an attribute");
  const hssize_t count = check(H5Sget_simple_extent_npoints(space.get()), location, "cannot read an attribute");
  if (H5Tequal(type.get(), H5T_STD_I64LE) <= 0 || count > H5S_MAX_RANK) {
    fail(location, name, "of another type", "64-bit integers");
  }
  std::vector<std::int64_t> values(static_cast<std::size_t>(count));
  if (count > 0) check(H5Aread(attribute.get(), H5T_STD_I64LE, values.data()), location, "cannot read an attribute");
  return values;
}

std::int64_t count_of(const Shape& shape, const Location& location) {
  try {
    return element_count(shape);
  } catch (const ContractError& error) {
    fail(location, "global_shape", to_string(shape), "extents of 0 or more with a product below 2^62");
  }
}

std::int64_t read_integer(hid_t dataset, const char* name, const Location& location) {
  const auto values = read_integers(dataset, name, location);
  if (values.size() != 1) fail(location, name, fmt::format("{} integers", values.size()), "one");
  return values.front();
}

}  // namespace

void write_text(hid_t object, const char* name, std::string_view text, const Location& location) {
  const char* operation = "cannot write an attribute";
  const Handle type = own(H5Tcopy(H5T_C_S1), H5Tclose, location, operation);
  check(H5Tset_size(type.get(), text.size()), location, operation);
  check(H5Tset_strpad(type.get(), H5T_STR_NULLPAD), location, operation);
  write_attribute(object, name, type.get(), own(H5Screate(H5S_SCALAR), H5Sclose, location, operation), text.data(),
                  location);
}

void write_integer(hid_t object, const char* name, std::int64_t value, const Location& location) {
  write_attribute(object, name, H5T_STD_I64LE,
                  own(H5Screate(H5S_SCALAR), H5Sclose, location, "cannot write an attribute"), &value, location);
}

void write_attributes(hid_t dataset, const TensorInfo& info, std::uint64_t checksum, const Location& location) {
  write_text(dataset, "dtype", name_of(info.dtype), location);
  const hsize_t extents = info.global_shape.size();
  const Handle space = own(H5Screate_simple(1, &extents, nullptr), H5Sclose, location, "cannot write an attribute");
  const std::int64_t none = 0;  // HDF5 wants an address even where a scalar's shape has no extents
  write_attribute(dataset, "global_shape", H5T_STD_I64LE, space, extents == 0 ? &none : info.global_shape.data(),
                  location);
  write_integer(dataset, "begin", info.elements.begin, location);
  write_integer(dataset, "end", info.elements.end, location);
  write_text(dataset, "checksum", checksum_text(checksum), location);
  if (!info.optimizer.empty()) write_text(dataset, "optimizer", info.optimizer, location);
}

Attributes read_attributes(hid_t dataset, const Location& location) {
  Attributes attributes;
  try {
    attributes.info.dtype = parse_dtype(read_text(dataset, "dtype", location));
  } catch (const InputError& error) {
    throw IoError(fmt::format("'{}', dataset '{}': {}", location.path, location.dataset, error.what()));
  }
  attributes.info.global_shape = read_integers(dataset, "global_shape", location);
  attributes.info.elements = {read_integer(dataset, "begin", location), read_integer(dataset, "end", location)};
  const Interval elements = attributes.info.elements;
  if (elements.begin < 0 || elements.end < elements.begin ||
      elements.end > count_of(attributes.info.global_shape, location)) {
    fail(location, "begin, end", fmt::format("[{}, {})", elements.begin, elements.end), "an interval of global_shape");
  }
  const std::string checksum = read_text(dataset, "checksum", location);
  const auto value = parse_checksum(checksum);
  if (!value) fail(location, "checksum", "'" + checksum + "'", "16 hexadecimal digits");
  attributes.checksum = *value;
  if (check(H5Aexists(dataset, "optimizer"), location, "cannot look for an attribute") != 0) {
    attributes.info.optimizer = read_text(dataset, "optimizer", location);
  }
  return attributes;
}

}  // namespace matrixfsdp::io

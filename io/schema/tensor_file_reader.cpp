#include <algorithm>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/checksum.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

#include "io/schema/attributes.hpp"
#include "io/schema/hdf5.hpp"

namespace matrixfsdp::io {
namespace {

Handle open_dataset(const Handle& file, const Location& location) {
  return own(H5Dopen2(file.get(), location.dataset.c_str(), H5P_DEFAULT), H5Dclose, location, "cannot be opened");
}

std::vector<hsize_t> extents_of(const Handle& space, const Location& location) {
  std::vector<hsize_t> extents(
      static_cast<std::size_t>(check(H5Sget_simple_extent_ndims(space.get()), location, "cannot be examined")));
  check(H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr), location, "cannot be examined");
  return extents;
}

/// Extents and element type in the file must be those that the attributes say.
void check_fit(const Handle& data, const Handle& space, const Handle& type, const TensorInfo& info,
               const Location& location) {
  const auto extents = extents_of(space, location);
  std::vector<hsize_t> expected(info.global_shape.begin(), info.global_shape.end());
  if (!info.whole()) expected.assign(1, static_cast<hsize_t>(info.elements.size()));
  if (extents != expected) {
    throw IoError(fmt::format("'{}', dataset '{}': extents {}; its attributes say {}", location.path, location.dataset,
                              to_string(Shape(extents.begin(), extents.end())),
                              to_string(Shape(expected.begin(), expected.end()))));
  }
  const Handle stored = own(H5Dget_type(data.get()), H5Tclose, location, "cannot be examined");
  if (H5Tequal(stored.get(), type.get()) <= 0) {
    throw IoError(fmt::format("'{}', dataset '{}': its elements are not the {} that its attributes say", location.path,
                              location.dataset, name_of(info.dtype)));
  }
}

/// Cuts extents into runs of at most `limit` consecutive elements: intervals along one axis, of which everything behind
/// is whole.
class Runs {
 public:
  Runs(std::vector<hsize_t> extents, hsize_t limit) : extents_(std::move(extents)) {
    axis_ = extents_.size();
    while (axis_ > 0 && behind_ * extents_[axis_ - 1] <= limit)
      behind_ *= extents_[--axis_];
    // Everything from axis_ on fits; the axis before it is cut.
    if (axis_ > 0) {
      --axis_;
      step_ = std::max<hsize_t>(1, limit / behind_);
    }
  }

  /// Calls visit(start, count, elements) for each run, in order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    std::vector<hsize_t> start(extents_.size());  // zeros
    std::vector<hsize_t> count(extents_);
    if (step_ == 0) return visit(start, count, behind_);
    for (std::size_t axis = 0; axis < axis_; ++axis)
      count[axis] = 1;
    do {
      for (hsize_t first = 0; first < extents_[axis_]; first += step_) {
        start[axis_] = first;
        count[axis_] = std::min(step_, extents_[axis_] - first);
        visit(start, count, count[axis_] * behind_);
      }
    } while (advance(start));
  }

 private:
  /// Next index of the axes before the cut one; false at the end.
  bool advance(std::vector<hsize_t>& start) const {
    for (std::size_t axis = axis_; axis-- > 0;) {
      if (++start[axis] < extents_[axis]) return true;
      start[axis] = 0;
    }
    return false;
  }

  std::vector<hsize_t> extents_;
  std::size_t axis_ = 0;  // the one that is cut
  hsize_t behind_ = 1;    // elements behind one index of it
  hsize_t step_ = 0;      // indices per run; 0: everything is one run
};

}  // namespace

struct TensorFileReader::Implementation {
  std::string path;
  Handle file;
};

TensorFileReader::TensorFileReader(std::string path) : implementation_(std::make_unique<Implementation>()) {
  implementation_->path = std::move(path);
  const QuietErrors quiet;
  const Location location{implementation_->path, {}};
  implementation_->file = own(H5Fopen(location.path.c_str(), H5F_ACC_RDONLY, file_access(location).get()), H5Fclose,
                              location, "cannot be opened as HDF5");
}

TensorFileReader::~TensorFileReader() = default;

TensorInfo TensorFileReader::info(const std::string& dataset) const {
  const QuietErrors quiet;
  const Location location{implementation_->path, dataset};
  return read_attributes(open_dataset(implementation_->file, location).get(), location).info;
}

std::uint64_t TensorFileReader::read(const std::string& dataset, const Sink& sink, std::int64_t block_bytes) const {
  const QuietErrors quiet;
  const Location location{implementation_->path, dataset};
  const Handle data = open_dataset(implementation_->file, location);
  const Attributes attributes = read_attributes(data.get(), location);
  const Handle space = own(H5Dget_space(data.get()), H5Sclose, location, "cannot be examined");
  const Handle type = element_type(attributes.info.dtype, location);
  check_fit(data, space, type, attributes.info, location);

  Checksum checksum;
  if (!attributes.info.elements.empty()) {
    const std::size_t element = size_of(attributes.info.dtype);
    const auto limit = std::max<hsize_t>(1, static_cast<hsize_t>(block_bytes) / element);
    std::vector<std::byte> block(std::min<hsize_t>(limit, static_cast<hsize_t>(attributes.info.elements.size())) *
                                 element);
    std::int64_t first = 0;
    const auto extents = extents_of(space, location);
    Runs(extents, limit).for_each([&](const auto& start, const auto& count, hsize_t elements) {
      const Handle memory = own(H5Screate_simple(1, &elements, nullptr), H5Sclose, location, "cannot be read");
      if (!extents.empty()) {
        check(H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), location,
              "cannot be read");
      }
      check(H5Dread(data.get(), type.get(), memory.get(), space.get(), H5P_DEFAULT, block.data()), location,
            "cannot be read");
      const std::span<const std::byte> values(block.data(), elements * element);
      checksum.update(values);
      sink(first, values);
      first += static_cast<std::int64_t>(elements);
    });
  }
  if (checksum.digest() != attributes.checksum) {
    throw IoError(fmt::format("'{}', dataset '{}': is damaged: checksum {}; it was written with {}", location.path,
                              location.dataset, checksum_text(checksum.digest()), checksum_text(attributes.checksum)));
  }
  return attributes.checksum;
}

}  // namespace matrixfsdp::io

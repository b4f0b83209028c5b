#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/files.hpp>
#include <matrixfsdp/schema/index_file.hpp>

#include "io/schema/attributes.hpp"
#include "io/schema/new_file.hpp"

namespace matrixfsdp::io {
namespace {

std::string path_in(const std::string& folder) {
  return fmt::format("{}/{}", folder, index_name);
}

/// "FILE:DATASET" of an external link.
std::string target_of(const Handle& file, const Location& location) {
  const char* operation = "cannot be examined";
  H5L_info_t info{};
  check(H5Lget_info(file.get(), location.dataset.c_str(), &info, H5P_DEFAULT), location, operation);
  if (info.type != H5L_TYPE_EXTERNAL) return "no external link";
  std::vector<char> value(info.u.val_size);
  check(H5Lget_val(file.get(), location.dataset.c_str(), value.data(), value.size(), H5P_DEFAULT), location, operation);
  const char* name = nullptr;
  const char* object = nullptr;
  check(H5Lunpack_elink_val(value.data(), value.size(), nullptr, &name, &object), location, operation);
  return fmt::format("{}:{}", name, object);
}

}  // namespace

StoredFile write_index_file(const std::string& folder, const Manifest& manifest) {
  NewFile file(path_in(folder));
  for (const StoredSegment& segment : manifest.segments) {
    const Location location{file.path(), segment.dataset};
    file.write([&] {
      check(H5Lcreate_external(segment.file.c_str(), segment.dataset.c_str(), file.get(), segment.dataset.c_str(),
                               make_link_properties(location).get(), H5P_DEFAULT),
            location, "cannot be linked");
    });
  }
  file.write([&] {
    const Location location{file.path(), "/"};
    const Handle root = own(H5Gopen2(file.get(), "/", H5P_DEFAULT), H5Gclose, location, "cannot be opened");
    write_text(root.get(), "format", checkpoint_format, location);
    write_integer(root.get(), "format_version", format_version, location);
    write_integer(root.get(), "step", manifest.state.step, location);
  });
  file.close();
  flush_to_disk(folder);
  return describe_file(folder, std::string(index_name));
}

void verify_index_file(const std::string& folder, const Manifest& manifest) {
  const QuietErrors quiet;
  const std::string path = path_in(folder);
  const Location whole{path, {}};
  const Handle file =
      own(H5Fopen(path.c_str(), H5F_ACC_RDONLY, file_access(whole).get()), H5Fclose, whole, "cannot be opened as HDF5");
  for (const StoredSegment& segment : manifest.segments) {
    const std::string target = target_of(file, {path, segment.dataset});
    const std::string expected = segment.file + ":" + segment.dataset;
    if (target != expected) {
      throw IoError(fmt::format("'{}': link '{}' leads to '{}'; the manifest says '{}'", path, segment.dataset, target,
                                expected));
    }
  }
}

}  // namespace matrixfsdp::io

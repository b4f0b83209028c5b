#include "plan/blocks.hpp"

#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::detail {
namespace {

void check_names(const ParameterSpec& parameter) {
  const Blocks& blocks = parameter.blocks;
  if (blocks.names.size() != blocks.sizes.size()) {
    throw InputError(fmt::format("parameter '{}': {} block names for {} block sizes, expected one name per size",
                                 parameter.name, blocks.names.size(), blocks.sizes.size()));
  }
  std::set<std::string> seen;
  for (const std::string& name : blocks.names) {
    if (name.empty() || !seen.insert(name).second) {
      throw InputError(fmt::format(
          "parameter '{}': block name '{}', expected block names that are unique and not empty", parameter.name, name));
    }
  }
}

}  // namespace

void check_blocks(const ParameterSpec& parameter) {
  check_names(parameter);
  const Blocks& blocks = parameter.blocks;
  if (blocks.empty()) return;
  if (blocks.axis != 0 && blocks.axis != 1) {
    throw InputError(fmt::format("parameter '{}': blocks along axis {}, expected 0 (rows) or 1 (columns)",
                                 parameter.name, blocks.axis));
  }
  const MatrixExtents extents = matrix_extents(parameter.shape);
  const std::int64_t extent = blocks.axis == 0 ? extents.rows : extents.cols;
  // Counted down from the extent, so that absurd sizes cannot overflow the sum.
  std::int64_t rest = extent;
  bool fits = true;
  for (const std::int64_t size : blocks.sizes) {
    if (size < 1) {
      throw InputError(
          fmt::format("parameter '{}': a block of size {}, expected sizes of at least 1", parameter.name, size));
    }
    fits = fits && size <= rest;
    if (fits) rest -= size;
  }
  if (!fits || rest != 0) {
    throw InputError(fmt::format("parameter '{}': block sizes {}, expected a sum of {}, the {} of shape {}",
                                 parameter.name, fmt::join(blocks.sizes, " + "), extent,
                                 blocks.axis == 0 ? "rows" : "columns", to_string(parameter.shape)));
  }
}

}  // namespace matrixfsdp::detail

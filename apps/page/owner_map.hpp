#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace matrixfsdp::page {

struct OwnedMatrix {
  std::size_t unit = 0;
  std::size_t rank = 0;
  double elements = 0;
};

/// Who owns which units' matrices.
struct OwnerMap {
  std::vector<std::string> units;
  std::size_t ranks = 1;
  std::vector<OwnedMatrix> matrices;  ///< of these units and ranks
};

/// A picture that grows downwards.
struct OwnerPicture {
  std::string svg;   ///< elements, not the frame around them
  double width = 0;  ///< from 0
  double end = 0;    ///< where it ends
};

/// Of one place.
struct OwnerCell {
  double width = 12;
  double height = 12;
};

/// A row for each unit (or a few), a column for each rank (or a few), from `y` on: the more elements a place has, the
/// stronger its color, and what it stands for is its title. At most 48 rows and 64 columns.
OwnerPicture draw_owners(const OwnerMap& map, double y, const OwnerCell& cell = {});

}  // namespace matrixfsdp::page

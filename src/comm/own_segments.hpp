#pragma once

#include <array>
#include <cstdint>

#include <matrixfsdp/plan/segment_table.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// Calls copy(from, to) for each of a rank's own intervals: `from` in its shard, `to` in `whole`, which is the buffer,
/// or its words.
template <class Values, class Copy>
void place_own(const std::array<Interval, 2>& mine, const TensorView<const float>& shard, const Values& whole,
               const Copy& copy) {
  std::int64_t done = 0;
  for (const Interval& interval : mine) {
    if (!interval.empty()) copy(slice(shard, done, interval.size()), slice(whole, interval.begin, interval.size()));
    done += interval.size();
  }
}

}  // namespace matrixfsdp

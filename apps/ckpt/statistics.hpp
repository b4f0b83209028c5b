#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <matrixfsdp/schema/checkpoint_reader.hpp>

#include "apps/ckpt/report.hpp"

namespace matrixfsdp::ckpt {

/// Of the finite values of a tensor.
struct Statistics {
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -std::numeric_limits<double>::infinity();
  double sum = 0;
  double squares = 0;
  std::int64_t finite = 0;
  std::int64_t non_finite = 0;

  void add(DType dtype, std::span<const std::byte> values);

  /// 0 where there are no finite values, like the range's ends in JSON and text.
  [[nodiscard]] double mean() const { return finite == 0 ? 0 : sum / static_cast<double>(finite); }
  [[nodiscard]] double norm() const;
};

/// Null for minimum, maximum and mean where there are no finite values.
Json to_json(const Statistics& statistics);

/// Finite values in `bins` intervals of equal width from the minimum to the maximum, which is in the last.
struct Histogram {
  Statistics range;
  std::vector<std::int64_t> counts;
};

Statistics statistics_of(io::CheckpointReader& reader, const std::string& parameter, const std::string& what);
/// Reads the tensor once more.
Histogram histogram_of(io::CheckpointReader& reader, const std::string& parameter, const std::string& what,
                       const Statistics& range);

Json to_json(const Histogram& histogram);
/// A line with a bar for each interval.
std::string to_text(const Histogram& histogram);

}  // namespace matrixfsdp::ckpt

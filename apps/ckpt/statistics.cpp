#include "apps/ckpt/statistics.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "apps/ckpt/values.hpp"

namespace matrixfsdp::ckpt {
namespace {

constexpr std::size_t bins = 16;
constexpr std::int64_t bar_width = 50;

std::size_t bin_of(const Statistics& range, double value) {
  // Halves, because the difference of two finite numbers need not be finite.
  const double width = range.maximum / 2 - range.minimum / 2;
  if (!(width > 0)) return 0;
  const double place = (value / 2 - range.minimum / 2) / width * static_cast<double>(bins);
  return std::min(bins - 1, static_cast<std::size_t>(place));
}

double edge(const Statistics& range, std::size_t i) {
  const double share = static_cast<double>(i) / static_cast<double>(bins);
  return range.minimum * (1 - share) + range.maximum * share;
}

}  // namespace

void Statistics::add(DType dtype, std::span<const std::byte> values) {
  const std::size_t count = values.size() / size_of(dtype);
  for (std::size_t i = 0; i < count; ++i) {
    const double value = value_at(dtype, values, i);
    if (!std::isfinite(value)) {
      ++non_finite;
      continue;
    }
    ++finite;
    minimum = std::min(minimum, value);
    maximum = std::max(maximum, value);
    sum += value;
    squares += value * value;
  }
}

double Statistics::norm() const {
  return std::sqrt(squares);
}

Json to_json(const Statistics& s) {
  const auto known = [&](double value) { return s.finite > 0 ? Json(value) : Json(); };
  return {{"min", known(s.minimum)},
          {"max", known(s.maximum)},
          {"mean", known(s.mean())},
          {"norm", s.norm()},
          {"non_finite", s.non_finite}};
}

Statistics statistics_of(io::CheckpointReader& reader, const std::string& parameter, const std::string& what) {
  Statistics statistics;
  const DType dtype = reader.dtype(parameter, what);
  reader.read(parameter, what, [&](std::int64_t, std::span<const std::byte> values) { statistics.add(dtype, values); });
  return statistics;
}

Histogram histogram_of(io::CheckpointReader& reader, const std::string& parameter, const std::string& what,
                       const Statistics& range) {
  Histogram histogram{range, std::vector<std::int64_t>(bins, 0)};
  const DType dtype = reader.dtype(parameter, what);
  reader.read(parameter, what, [&](std::int64_t, std::span<const std::byte> values) {
    const std::size_t count = values.size() / size_of(dtype);
    for (std::size_t i = 0; i < count; ++i) {
      const double value = value_at(dtype, values, i);
      if (std::isfinite(value)) ++histogram.counts[bin_of(range, value)];
    }
  });
  return histogram;
}

Json to_json(const Histogram& histogram) {
  Json edges = Json::array();
  if (histogram.range.finite > 0) {
    for (std::size_t i = 0; i <= histogram.counts.size(); ++i)
      edges.push_back(edge(histogram.range, i));
  }
  return {{"edges", edges}, {"counts", histogram.counts}};
}

std::string to_text(const Histogram& histogram) {
  if (histogram.range.finite == 0) return "    no finite values\n";
  const std::int64_t most = *std::max_element(histogram.counts.begin(), histogram.counts.end());
  std::string text;
  for (std::size_t i = 0; i < histogram.counts.size(); ++i) {
    const std::int64_t count = histogram.counts[i];
    // A bar for every value that is there.
    const auto length = static_cast<std::size_t>(
        (static_cast<double>(count) * bar_width + static_cast<double>(most) - 1) / static_cast<double>(most));
    text +=
        fmt::format("    {:>11.4g} {:<{}} {}\n", edge(histogram.range, i), std::string(length, '#'), bar_width, count);
  }
  return text + fmt::format("    {:>11.4g}\n", histogram.range.maximum);
}

}  // namespace matrixfsdp::ckpt

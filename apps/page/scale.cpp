#include "apps/page/scale.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

namespace matrixfsdp::page {

std::vector<double> ticks(double low, double high, int wanted) {
  if (!std::isfinite(low) || !std::isfinite(high) || !(high > low)) return {low};
  const double rough = (high - low) / std::max(1, wanted);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  }
  std::vector<double> result;
  // By integers, so that no sum of roundings misses the last one; and 0 is 0.
  for (double k = std::ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; ++k)
    result.push_back(k * step + 0.0);
  return result;
}

std::string short_number(double value) {
  constexpr std::array<const char*, 6> suffixes{"", "k", "M", "G", "T", "P"};
  std::size_t thousands = 0;
  double shown = value;
  while (std::abs(shown) >= 9999.5 || (thousands > 0 && std::abs(shown) >= 999.95)) {
    if (thousands + 1 == suffixes.size()) break;
    shown /= 1000;
    ++thousands;
  }
  return fmt::format("{:.4g}{}", shown, suffixes[thousands]);
}

}  // namespace matrixfsdp::page

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/optim/muon.hpp>

namespace matrixfsdp {
namespace {

constexpr std::array<std::pair<ScaleRule, std::string_view>, 4> names{{{ScaleRule::original, "original"},
                                                                       {ScaleRule::match_rms_adamw, "match-rms-adamw"},
                                                                       {ScaleRule::spectral, "spectral"},
                                                                       {ScaleRule::none, "none"}}};

}  // namespace

ScaleRule parse_scale_rule(std::string_view name) {
  for (const auto& [rule, text] : names) {
    if (text == name) return rule;
  }
  throw InputError(fmt::format("scale rule \"{}\": expected original, match-rms-adamw, spectral or none", name));
}

std::string_view name_of(ScaleRule rule) {
  for (const auto& [value, text] : names) {
    if (value == rule) return text;
  }
  throw ContractError(fmt::format("scale rule number {} does not exist", static_cast<int>(rule)));
}

double update_scale(ScaleRule rule, std::int64_t rows, std::int64_t cols) {
  if (rows < 1 || cols < 1) {
    throw ContractError(fmt::format("update_scale: matrix {}x{}, expected at least one row and column", rows, cols));
  }
  const auto height = static_cast<double>(rows);
  const auto width = static_cast<double>(cols);
  switch (rule) {
    case ScaleRule::original:
      return std::sqrt(std::max(1.0, height / width));
    case ScaleRule::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(height, width));
    case ScaleRule::spectral:
      return std::sqrt(height / width);
    case ScaleRule::none:
      return 1.0;
  }
  throw ContractError(fmt::format("scale rule number {} does not exist", static_cast<int>(rule)));
}

}  // namespace matrixfsdp

#include <algorithm>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

namespace matrixfsdp {
namespace {

/// Logarithm of the factor at `bytes` along the measured sizes; empty where none was measured.
std::optional<double> log_factor(std::vector<CollectiveCorrection> measured, double bytes) {
  if (measured.empty()) return std::nullopt;
  std::sort(measured.begin(), measured.end(),
            [](const CollectiveCorrection& a, const CollectiveCorrection& b) { return a.bytes < b.bytes; });
  const auto above = std::find_if(measured.begin(), measured.end(), [bytes](const CollectiveCorrection& one) {
    return static_cast<double>(one.bytes) >= bytes;
  });
  if (above == measured.end()) return std::log(measured.back().factor);
  if (above == measured.begin()) return std::log(above->factor);
  const CollectiveCorrection& below = *(above - 1);
  const double from = std::log(static_cast<double>(below.bytes));
  const double part = (std::log(bytes) - from) / (std::log(static_cast<double>(above->bytes)) - from);
  return std::lerp(std::log(below.factor), std::log(above->factor), part);
}

/// 0: all own the same; 1: one owns all.
double unevenness(const SegmentTable& table) {
  const auto ranks = static_cast<double>(table.intervals.size());
  std::int64_t most = 0;
  for (int rank = 0; rank < static_cast<int>(table.intervals.size()); ++rank)
    most = std::max(most, table.shard_size(rank));
  const double share = static_cast<double>(most) / static_cast<double>(table.size);
  return std::clamp((share * ranks - 1) / (ranks - 1), 0.0, 1.0);
}

}  // namespace

std::string_view name_of(CollectiveOperation operation) {
  return operation == CollectiveOperation::unshard ? "unshard" : "reduce";
}

CollectiveOperation parse_collective_operation(std::string_view name) {
  for (const auto operation : {CollectiveOperation::unshard, CollectiveOperation::reduce}) {
    if (name == name_of(operation)) return operation;
  }
  throw InputError(fmt::format("collective operation '{}': expected unshard or reduce", name));
}

double correction_of(const CollectiveProfile& profile, CollectiveOperation operation, CollectiveAlgorithm algorithm,
                     const SegmentTable& table) {
  if (table.size == 0 || table.intervals.size() < 2) return 1;
  std::vector<CollectiveCorrection> even;
  std::vector<CollectiveCorrection> one_owner;
  for (const CollectiveCorrection& correction : profile.corrections) {
    if (correction.operation == operation && correction.algorithm == algorithm)
      (correction.one_owner ? one_owner : even).push_back(correction);
  }
  const double bytes = sizeof(float) * static_cast<double>(table.size);
  const double of_even = log_factor(std::move(even), bytes).value_or(0);
  return std::exp(std::lerp(of_even, log_factor(std::move(one_owner), bytes).value_or(0), unevenness(table)));
}

}  // namespace matrixfsdp

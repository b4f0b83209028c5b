#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>

namespace matrixfsdp {
namespace {

/// Every rank sees all parts, so all of them throw, or none.
void require_equal_counts(const std::vector<std::vector<std::byte>>& parts) {
  for (std::size_t rank = 1; rank < parts.size(); ++rank) {
    if (parts[rank].size() == parts[0].size()) continue;
    throw CommunicationError(
        fmt::format("loss exchange: {} losses on rank 0, {} on rank {}: expected one per pass, the same number",
                    parts[0].size() / sizeof(double), parts[rank].size() / sizeof(double), rank));
  }
}

}  // namespace

double fold_losses(Communicator& communicator, const std::vector<double>& losses, std::int64_t sum_group) {
  const auto parts =
      communicator.all_gather(Purpose::other, std::as_bytes(std::span(losses)), {"loss exchange", "", "step"});
  require_equal_counts(parts);
  const auto count = static_cast<std::int64_t>(losses.size() * parts.size());
  if (sum_group < 1 || count % sum_group != 0)
    throw InputError(fmt::format("sum group of {} micro-batches: expected a divisor of {}", sum_group, count));
  double sum = 0;
  double open = 0;
  std::int64_t in_group = 0;
  for (std::size_t pass = 0; pass < losses.size(); ++pass) {
    for (const auto& part : parts) {
      double value = 0;
      std::memcpy(&value, part.data() + pass * sizeof(double), sizeof(double));
      open += value;
      if (++in_group < sum_group) continue;
      sum += std::exchange(open, 0.0);
      in_group = 0;
    }
  }
  return sum;
}

}  // namespace matrixfsdp

#include "comm/require.hpp"

#include <functional>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp {

void require_ranks(const SegmentTable& table, int world_size, const OperationLabel& label) {
  if (table.intervals.size() == static_cast<std::size_t>(world_size)) return;
  throw ContractError(fmt::format("{}: the segment table has {} ranks: expected {}", to_string(label),
                                  table.intervals.size(), world_size));
}

void require_elements(const char* what, std::int64_t count, std::int64_t expected, const OperationLabel& label) {
  if (count == expected) return;
  throw ContractError(fmt::format("{}: {} has {} elements: expected {}", to_string(label), what, count, expected));
}

void require_apart(const TensorView<const float>& shard, const TensorView<float>& buffer, const OperationLabel& label) {
  const std::less<> before;
  const float* begin = buffer.data();
  if (!before(shard.data(), begin + buffer.size()) || !before(begin, shard.data() + shard.size())) return;
  throw ContractError(
      fmt::format("{}: the shard lies in the buffer: expected one outside of it, because it keeps its float32 values "
                  "while the buffer gets rounded ones",
                  to_string(label)));
}

}  // namespace matrixfsdp

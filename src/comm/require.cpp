#include "comm/require.hpp"

#include <functional>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp {

void require_group(const Unshard& unshard, const Communicator& communicator, const OperationLabel& label) {
  const int first = unshard.first_rank;
  const int ranks = static_cast<int>(unshard.table.intervals.size());
  const bool some = first >= 0 && first <= communicator.rank() && communicator.rank() < first + ranks &&
                    first + ranks <= communicator.size();
  const bool all = ranks == communicator.size();
  if (some && (all || unshard.algorithm != CollectiveAlgorithm::allgatherv)) return;
  throw ContractError(fmt::format("{}: the segment table has {} ranks from rank {} on: expected {}rank {} of {}",
                                  to_string(label), ranks, first, some ? "all for allgatherv, not only those of " : "",
                                  communicator.rank(), communicator.size()));
}

void require_groups(const Reduce& reduce, int world_size, const OperationLabel& label) {
  const auto ranks = static_cast<std::int64_t>(reduce.table.intervals.size());
  if (reduce.replicas >= 1 && ranks * reduce.replicas == world_size) return;
  throw ContractError(fmt::format("{}: the segment table has {} ranks, for {} replicas: expected {} ranks together",
                                  to_string(label), ranks, reduce.replicas, world_size));
}

void require_pass(const Reduce& reduce, const Pass& pass, const OperationLabel& label) {
  const bool exists = pass.number >= 0 && pass.number < reduce.passes && pass.last == (pass.number + 1 == reduce.passes);
  if (reduce.sum_group == 1 || exists) return;
  throw ContractError(fmt::format("{}: pass {}{}: expected one of {}, the last one last", to_string(label), pass.number,
                                  pass.last ? ", the last" : "", reduce.passes));
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

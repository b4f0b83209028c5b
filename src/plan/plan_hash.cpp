#include <matrixfsdp/plan/plan.hpp>

#include "plan/fingerprint.hpp"

namespace matrixfsdp {
namespace {

void add(detail::Fingerprint& hash, const MatrixShard& shard) {
  hash.add(shard.size);
  hash.add_size(shard.segments.size());
  for (const Segment& segment : shard.segments) {
    hash.add_size(segment.parameter);
    hash.add(segment.elements);
    hash.add(std::int64_t{segment.rank});
    hash.add(segment.offset);
  }
  hash.add_size(shard.parameter_offsets.size());
  for (const std::int64_t offset : shard.parameter_offsets)
    hash.add(offset);
  for (const std::vector<Interval>* intervals : {&shard.owned, &shard.tails}) {
    hash.add_size(intervals->size());
    for (const Interval interval : *intervals)
      hash.add(interval);
  }
}

}  // namespace

std::uint64_t hash_of(const Plan& plan) {
  detail::Fingerprint hash;
  hash.add(std::int64_t{plan.world_size});
  hash.add(std::int64_t{plan.replicated});
  hash.add(std::int64_t{plan.row_shards});
  hash.add_size(plan.units.size());
  for (const UnitPlan& unit : plan.units) {
    add(hash, unit.weights);
    add(hash, unit.gradients);
  }
  return hash.value();
}

}  // namespace matrixfsdp

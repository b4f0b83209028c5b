#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include <matrixfsdp/plan/collective_model.hpp>
#include <matrixfsdp/plan/machine.hpp>

namespace matrixfsdp::detail {

/// What a machine's links need, by the fastest collective or by one that is asked for. Tables that are alike (size and
/// fullest rank) are priced once.
class Transfers {
 public:
  /// `links`: instead of the machine's; they may lack a class that the machine does not have.
  explicit Transfers(const Machine& machine, const std::optional<CollectiveProfile>& links = std::nullopt);

  [[nodiscard]] const Topology& topology() const { return topology_; }

  /// Everybody gets all of `table`, elements of `element_bytes` bytes.
  double unshard(const SegmentTable& table, double element_bytes,
                 std::optional<CollectiveAlgorithm> algorithm = std::nullopt);
  /// Sums of everybody's get to their ranks of `table`, in one pass of `passes`.
  double reduce(const SegmentTable& table, double element_bytes, std::int64_t passes);
  /// The busiest rank sends, or receives, so many bytes to or from all others alike, in one message each.
  [[nodiscard]] double exchange(double bytes) const;

 private:
  /// Operation (-1: the fastest unshard; -2: reduce; else an algorithm), size, elements of the fullest rank, bytes of
  /// an element, passes.
  using Key = std::tuple<int, std::int64_t, std::int64_t, double, std::int64_t>;
  template <class Price>
  double once(const Key& key, const Price& price);
  [[nodiscard]] CollectiveProfile scaled(double element_bytes) const;

  Topology topology_;
  CollectiveProfile profile_;
  std::map<Key, double> priced_;
};

}  // namespace matrixfsdp::detail

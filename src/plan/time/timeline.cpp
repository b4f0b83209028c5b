#include <algorithm>

#include <matrixfsdp/plan/time_model.hpp>

namespace matrixfsdp {
namespace {

/// A link and a processor that work side by side on units, one after the other.
class Timeline {
 public:
  explicit Timeline(std::int64_t prefetch) : slots_(static_cast<std::size_t>(prefetch) + 1) {}

  /// The next unit's computation, on what arrived at `arrival`.
  void compute(double arrival, double seconds) {
    processor_ = std::max(processor_, arrival) + seconds;
    ended_.push_back(processor_);
  }
  /// A transfer that may begin at `earliest`; returns when it has arrived.
  double transfer(double earliest, double seconds) {
    if (seconds <= 0) return earliest;
    link_ = std::max(link_, earliest) + seconds;
    return link_;
  }
  /// The unshard of the `nth` unit: its storage is that of the unit so many places before it.
  double unshard(std::size_t nth, double seconds) { return transfer(nth < slots_ ? 0 : ended_[nth - slots_], seconds); }
  /// Something that is computed on no unit.
  void wait(double seconds) { processor_ += seconds; }
  [[nodiscard]] double processor() const { return processor_; }
  [[nodiscard]] double end() const { return std::max(processor_, link_); }

 private:
  std::size_t slots_;
  std::vector<double> ended_;  ///< computations, in order
  double processor_ = 0;
  double link_ = 0;
};

}  // namespace

double forward_seconds(const std::vector<UnitSeconds>& units, double last, std::int64_t prefetch) {
  Timeline timeline(prefetch);
  for (std::size_t u = 0; u < units.size(); ++u)
    timeline.compute(timeline.unshard(u, units[u].unshard), units[u].forward);
  return timeline.end() + last;
}

double backward_seconds(const std::vector<UnitSeconds>& units, double last, std::int64_t prefetch) {
  Timeline timeline(prefetch);
  timeline.wait(last);
  const auto nth_unit = [&units](std::size_t nth) -> const UnitSeconds& { return units[units.size() - 1 - nth]; };
  std::vector<double> arrivals;
  for (std::size_t nth = 0; nth < units.size(); ++nth) {
    // What comes next was asked for before the reduce of the unit that is computed now.
    while (arrivals.size() < units.size() && arrivals.size() <= nth + static_cast<std::size_t>(prefetch)) {
      const UnitSeconds& next = nth_unit(arrivals.size());
      arrivals.push_back(timeline.unshard(arrivals.size(), next.keep ? 0 : next.unshard));
    }
    timeline.compute(arrivals[nth], nth_unit(nth).backward);
    timeline.transfer(timeline.processor(), nth_unit(nth).reduce);
  }
  return timeline.end();
}

}  // namespace matrixfsdp

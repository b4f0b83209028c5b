#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace matrixfsdp {

/// Which of several workers does which of several pieces of work: largest first, each to the worker with the least so
/// far (LPT; Graham 1969: at most 4/3 - 1/(3 workers) of the best possible time). By costs alone, never by what took
/// how long, so that a worker does the same work in the same memory in every step.
class WorkerLists {
 public:
  WorkerLists() = default;  ///< no work
  /// Of costs >= 0, e.g. FLOPs. Equal ones keep their order. Throws ContractError for less than one worker.
  WorkerLists(std::vector<std::int64_t> costs, int workers);

  /// Makes the lists anew, of the pieces for which wanted(piece) holds. Allocates nothing.
  template <class Wanted>
  void assign(const Wanted& wanted) {
    clear();
    for (const std::size_t piece : order_) {
      if (wanted(piece)) add(piece);
    }
  }

  /// What a worker does, largest first; nothing before the first assign().
  [[nodiscard]] std::span<const std::size_t> of(int worker) const { return lists_[static_cast<std::size_t>(worker)]; }

  /// All that a worker may get, whatever is wanted: all but the `worker` largest pieces, which others get before it.
  [[nodiscard]] std::span<const std::size_t> most_of(int worker) const;

 private:
  void clear();
  void add(std::size_t piece);

  std::vector<std::int64_t> costs_;
  std::vector<std::size_t> order_;  ///< of all pieces, largest first
  std::vector<std::vector<std::size_t>> lists_;
  std::vector<std::int64_t> loads_;
};

}  // namespace matrixfsdp

#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <mpi.h>

#include <matrixfsdp/comm/communicator.hpp>

namespace matrixfsdp::mpi {

class Pending;
class Progress;

/// GpuAware::automatic.
bool stages_by_default();

/// What operations share: they may outlive the Communicator that issued them, so they own it together. A progress
/// thread touches `bytes`, `background` and the operations in it, so these are used with `mutex` locked; the rest
/// belongs to the thread that issues.
struct Channel {
  /// `comm` is valid. Queries rank, size and the range of tags.
  explicit Channel(MPI_Comm communicator);

  /// Frees the staging of abandoned operations that MPI has finished with, and makes room for all that may still be
  /// abandoned.
  void sweep();

  /// For the end of the runtime, when no rank communicates any more: frees the staging of abandoned operations.
  void end_abandoned() noexcept;

  /// Tag of operation number `operation`: operations under way at the same time have different tags.
  [[nodiscard]] int tag_of(std::uint64_t operation) const {
    return static_cast<int>(operation % (static_cast<std::uint64_t>(largest_tag) + 1));
  }

  MPI_Comm comm;
  int rank = 0;
  int size = 0;
  int largest_tag = 0;
  std::int64_t piece_bytes = std::int64_t{1} << 30;  ///< longest message: MPI counts are int (CASES 43)
  bool stages = stages_by_default();                 ///< messages leave and reach tensors by way of copies
  std::uint64_t next_sequence = 0;                   ///< the same on all ranks, because all issue in one order
  std::chrono::milliseconds deadline = std::chrono::seconds(300);
  ByteCounts bytes;
  std::size_t open_operations = 0;
  bool was_abandoned = false;                       ///< messages may be left that no receive will ever take
  std::vector<std::shared_ptr<Pending>> graveyard;  ///< abandoned: MPI may still read or write their staging

  std::mutex mutex;
  std::vector<Pending*> background;  ///< not complete: a progress thread, if there is one, advances them
  std::condition_variable issued;    ///< background is not empty any more, or the progress thread shall end
  std::weak_ptr<Progress> progress;
};

/// Starts `operation` and wraps it: from here on an error leaves its staging in the graveyard.
Request issue(const std::shared_ptr<Pending>& operation, const OperationLabel& label);

}  // namespace matrixfsdp::mpi

namespace matrixfsdp {

class SegmentBackend;

struct Communicator::Implementation {
  Implementation(MPI_Comm comm, bool owns_comm);
  Implementation(const Implementation&) = delete;
  Implementation& operator=(const Implementation&) = delete;
  ~Implementation();

  std::shared_ptr<mpi::Channel> channel;
  bool owned;
  std::shared_ptr<SegmentBackend> segments;  ///< while attached it carries gather and reduce; null: MPI does
};

}  // namespace matrixfsdp

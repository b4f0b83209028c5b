#include "comm/mpi/library_gather.hpp"

#include <array>
#include <limits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/check.hpp"

namespace matrixfsdp::mpi {
namespace {

class LibraryGather final : public Pending {
 public:
  LibraryGather(const std::shared_ptr<Channel>& shared_channel, Purpose purpose, const SegmentTable& table,
                const float* shard, float* buffer)
      : Pending(shared_channel), purpose_(purpose), shard_(shard), buffer_(buffer) {
    for (std::size_t part = 0; part < requests_.size(); ++part) {
      for (const auto& intervals : table.intervals) {
        layouts_[part].counts.push_back(static_cast<int>(intervals[part].size()));
        layouts_[part].offsets.push_back(static_cast<int>(intervals[part].begin));
      }
    }
  }

  bool settled() noexcept override {
    if (!running()) return true;
    int done = 0;
    const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
    return code == MPI_SUCCESS && done != 0;
  }

  void give_up() noexcept override {}  // MPI has no way to take a collective back

 protected:
  bool step() override {
    if (!started_) start();
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return done != 0;
  }

 private:
  void start() {
    started_ = true;
    const float* shard = shard_;
    for (std::size_t part = 0; part < requests_.size(); ++part) {
      const Layout& layout = layouts_[part];
      const int mine = layout.counts[static_cast<std::size_t>(rank())];
      check(MPI_Iallgatherv(shard, mine, MPI_FLOAT, buffer_, layout.counts.data(), layout.offsets.data(), MPI_FLOAT,
                            channel()->comm, &requests_[part]),
            "MPI_Iallgatherv");
      shard += mine;
      channel()->bytes[purpose_] += std::int64_t{4} * mine * (size() - 1);
    }
  }

  /// MPI reads these until it is complete.
  struct Layout {
    std::vector<int> counts;
    std::vector<int> offsets;
  };
  Purpose purpose_;
  const float* shard_;
  float* buffer_;
  bool started_ = false;
  std::array<Layout, 2> layouts_;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

}  // namespace

std::shared_ptr<Pending> library_gather(const std::shared_ptr<Channel>& channel, Purpose purpose,
                                        const SegmentTable& table, const float* shard, float* buffer) {
  if (table.size > std::numeric_limits<int>::max()) {
    throw InputError(
        fmt::format("collective allgatherv: a unit of {} elements: expected at most {} (MPI's int), or "
                    "another algorithm",
                    table.size, std::numeric_limits<int>::max()));
  }
  return std::make_shared<LibraryGather>(channel, purpose, table, shard, buffer);
}

}  // namespace matrixfsdp::mpi

#include "comm/mpi/library_gather.hpp"

#include <array>
#include <cstring>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/tensor/wire.hpp>

#include "comm/mpi/check.hpp"

namespace matrixfsdp::mpi {
namespace {

class LibraryGather final : public Pending {
 public:
  LibraryGather(const std::shared_ptr<Channel>& shared_channel, Purpose purpose, const Unshard& unshard, float* buffer)
      : Pending(shared_channel),
        purpose_(purpose),
        buffer_(buffer, static_cast<std::size_t>(unshard.table.size)),
        wire_(unshard.wire) {
    for (std::size_t part = 0; part < requests_.size(); ++part) {
      for (const auto& intervals : unshard.table.intervals) {
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
    if (done == 0) return false;
    if (!copy_.empty()) std::memcpy(place(), copy_.data(), copy_.size());
    if (words()) widen(buffer_);
    return true;
  }

 private:
  [[nodiscard]] bool words() const { return wire_ == DType::bfloat16; }

  /// Where elements stand while they are under way.
  std::byte* place() {
    return words() ? reinterpret_cast<std::byte*>(upper_words(buffer_).data())
                   : reinterpret_cast<std::byte*>(buffer_.data());
  }

  /// All of it in host memory, own segments filled in.
  std::byte* copied() {
    const std::size_t size = size_of(wire_);
    copy_.resize(size * buffer_.size());
    for (const Layout& layout : layouts_) {
      const std::size_t begin = size * static_cast<std::size_t>(layout.offsets[static_cast<std::size_t>(rank())]);
      const std::size_t bytes = size * static_cast<std::size_t>(layout.counts[static_cast<std::size_t>(rank())]);
      if (bytes > 0) std::memcpy(copy_.data() + begin, place() + begin, bytes);
    }
    return copy_.data();
  }

  void start() {
    started_ = true;
    void* all = channel()->stages ? copied() : place();
    MPI_Datatype type = words() ? MPI_UINT16_T : MPI_FLOAT;
    for (std::size_t part = 0; part < requests_.size(); ++part) {
      const Layout& layout = layouts_[part];
      const int mine = layout.counts[static_cast<std::size_t>(rank())];
      check(MPI_Iallgatherv(MPI_IN_PLACE, mine, type, all, layout.counts.data(), layout.offsets.data(), type,
                            channel()->comm, &requests_[part]),
            "MPI_Iallgatherv");
      channel()->bytes[purpose_] += static_cast<std::int64_t>(size_of(wire_)) * mine * (size() - 1);
    }
  }

  /// MPI reads these until it is complete.
  struct Layout {
    std::vector<int> counts;
    std::vector<int> offsets;
  };
  Purpose purpose_;
  TensorView<float> buffer_;
  DType wire_;  ///< bfloat16: words travel, from and to the buffer
  bool started_ = false;
  std::vector<std::byte> copy_;  ///< where the channel stages
  std::array<Layout, 2> layouts_;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
};

}  // namespace

std::shared_ptr<Pending> library_gather(const std::shared_ptr<Channel>& channel, Purpose purpose,
                                        const Unshard& unshard, float* buffer) {
  if (unshard.table.size > std::numeric_limits<int>::max()) {
    throw InputError(
        fmt::format("collective allgatherv: a unit of {} elements: expected at most {} (MPI's int), or "
                    "another algorithm",
                    unshard.table.size, std::numeric_limits<int>::max()));
  }
  return std::make_shared<LibraryGather>(channel, purpose, unshard, buffer);
}

}  // namespace matrixfsdp::mpi

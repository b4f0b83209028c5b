#include <algorithm>
#include <array>
#include <utility>

#include "comm/fold.hpp"
#include "comm/mpi/exchange.hpp"
#include "comm/mpi/segment_pace.hpp"
#include "comm/require.hpp"

namespace matrixfsdp {
namespace mpi {
namespace {

/// Every rank sends each chunk to its holder, block by block. A holder folds block b when all ranks' have come, then
/// lets block b + 2 come into the same half of the staging. A sender is never more than two blocks ahead, and all send
/// block b to everybody before they wait for room for block b + 2, so nobody waits in a circle.
class FoldExchange final : public Exchange {
 public:
  FoldExchange(std::shared_ptr<Channel> channel, std::int64_t size_of_unit, bool first, const float* buffer,
               float* sums)
      : Exchange(std::move(channel), Purpose::reduce, {4 * exchange_block, 2}),
        first_(first),
        chunk_(fold_chunk(size_of_unit, rank(), size())),
        own_(buffer + chunk_.begin),
        sums_(sums),
        stride_(std::min(2 * exchange_block, chunk_.size())) {
    const std::int64_t staging = (size() - 1) * stride_;
    if (staging > 0) staging_ = make_tensor<float>("matrixfsdp::fold_staging", staging);
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size();
      const Interval theirs = fold_chunk(size_of_unit, to, size());
      send(to, buffer + theirs.begin, bytes_of(theirs));
    }
    expect(0);
    expect(1);
  }

 private:
  [[nodiscard]] Interval block(std::int64_t index) const {
    return intersect({0, chunk_.size()}, {index * exchange_block, (index + 1) * exchange_block});
  }

  /// Block `index` of all peers, into its half of the staging.
  void expect(std::int64_t index) {
    arrived_[static_cast<std::size_t>(index % 2)] = 0;
    for (int i = 1; i < size(); ++i) {
      const int from = (rank() + size() - i) % size();
      const int row = from < rank() ? from : from - 1;
      receive(from, staging_.data() + row * stride_ + (index % 2) * exchange_block, bytes_of(block(index)));
    }
  }

  void received(int /*peer*/, std::int64_t message) override {
    ++arrived_[static_cast<std::size_t>(message % 2)];
    while (!block(next_).empty() && arrived_[static_cast<std::size_t>(next_ % 2)] == size() - 1)
      fold();
  }

  /// A single rank has nobody to wait for.
  bool next_stage() override {
    if (block(next_).empty()) return false;
    fold();
    return true;
  }

  void fold() {
    const Interval elements = block(next_);
    fold_block({staging_.data() + (next_ % 2) * exchange_block, stride_, own_ + elements.begin, rank(), size()}, first_,
               sums_ + elements.begin, elements.size());
    expect(next_ + 2);
    ++next_;
  }

  bool first_;
  Interval chunk_;
  const float* own_;
  float* sums_;
  std::int64_t stride_;  // staging elements of each peer
  Tensor<float> staging_;
  std::int64_t next_ = 0;                  // block to fold
  std::array<std::int64_t, 2> arrived_{};  // peers whose block is there, of the next two blocks
};

}  // namespace
}  // namespace mpi

Request fold_exchange(Communicator& communicator, std::int64_t size, bool first, TensorView<const float> buffer,
                      TensorView<float> sums, const OperationLabel& label) {
  const Interval chunk = fold_chunk(size, communicator.rank(), communicator.size());
  require_elements("the gradient", static_cast<std::int64_t>(buffer.size()), size, label);
  require_elements("the running sums", static_cast<std::int64_t>(sums.size()), chunk.size(), label);

  Kokkos::fence();  // a kernel may still be writing the gradient (CASES 40)
  return mpi::issue(std::make_shared<mpi::FoldExchange>(communicator.implementation().channel, size, first,
                                                        buffer.data(), sums.data()),
                    label);
}

std::int64_t fold_exchange_staging_bytes(std::int64_t size, int rank, int world_size) {
  const std::int64_t chunk = fold_chunk(size, rank, world_size).size();
  return 4 * (world_size - 1) * std::min(2 * exchange_block, chunk);
}

}  // namespace matrixfsdp

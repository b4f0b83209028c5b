#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/small_message.hpp"

namespace matrixfsdp {
namespace mpi {
namespace {

/// Binomial tree over ranks relative to the root: 0 sends to 1, 2, 4, ...; a rank's parent is the rank without its
/// lowest set bit. Each edge carries a head, then the rest.
class Broadcast final : public Exchange {
 public:
  Broadcast(const std::shared_ptr<Channel>& channel, Purpose purpose, std::span<const std::byte> data, int root)
      : Exchange(channel, purpose, whole_message_pace(*channel)),
        root_(root),
        relative_((rank() - root + size()) % size()) {
    if (relative_ == 0) {
      data_.assign(data.begin(), data.end());
      head_ = Head(data_);
    } else {
      receive_message(parent(), head_.data(), Head::capacity);
    }
  }

  std::vector<std::byte> take() { return std::move(data_); }

 private:
  [[nodiscard]] int lowest_bit() const { return relative_ & -relative_; }
  [[nodiscard]] int parent() const { return (relative_ - lowest_bit() + root_) % size(); }

  bool next_stage() override {
    ++stage_;
    if (stage_ == 1) {
      if (relative_ != 0) {
        data_ = head_.open();
        receive(parent(), data_.data() + head_.inline_bytes(), head_.rest());
      }
      return true;
    }
    if (stage_ > 2) return false;
    int bit = 1;  // the largest below the lowest set bit, or below the size for the root: the deepest subtree first
    while (bit < size() && (relative_ == 0 || bit < lowest_bit()))
      bit *= 2;
    for (bit /= 2; bit > 0; bit /= 2) {
      if (relative_ + bit >= size()) continue;
      const int child = (relative_ + bit + root_) % size();
      send_message(child, head_.data(), head_.bytes());
      send(child, data_.data() + head_.inline_bytes(), head_.rest());
    }
    return true;
  }

  int root_;
  int relative_;
  int stage_ = 0;
  Head head_;
  std::vector<std::byte> data_;
};

}  // namespace
}  // namespace mpi

std::vector<std::byte> Communicator::broadcast(Purpose purpose, std::span<const std::byte> data, int root,
                                               const OperationLabel& label) {
  if (root < 0 || root >= size()) {
    throw ContractError(
        fmt::format("{}: broadcast from rank {}: expected 0 <= root < {}", to_string(label), root, size()));
  }
  const auto exchange = std::make_shared<mpi::Broadcast>(implementation().channel, purpose, data, root);
  mpi::issue(exchange, label).wait();
  return exchange->take();
}

}  // namespace matrixfsdp

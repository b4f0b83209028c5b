#include <matrixfsdp/comm/communicator.hpp>

#include "comm/mpi/small_message.hpp"

namespace matrixfsdp {
namespace mpi {
namespace {

/// Everybody sends a head (size and the first bytes) to everybody, then what did not fit into it.
class AllGather final : public Exchange {
 public:
  AllGather(const std::shared_ptr<Channel>& channel, Purpose purpose, std::span<const std::byte> mine)
      : Exchange(channel, purpose, whole_message_pace(*channel)),
        mine_(mine.begin(), mine.end()),
        head_(mine_),
        heads_(static_cast<std::size_t>(size())),
        parts_(static_cast<std::size_t>(size())) {
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size();
      const int from = (rank() + size() - i) % size();
      send_message(to, head_.data(), head_.bytes());
      receive_message(from, heads_[static_cast<std::size_t>(from)].data(), Head::capacity);
    }
  }

  /// Of every rank. Once.
  std::vector<std::vector<std::byte>> take() {
    parts_[static_cast<std::size_t>(rank())] = std::move(mine_);
    return std::move(parts_);
  }

 private:
  bool next_stage() override {
    if (payload_queued_) return false;
    payload_queued_ = true;
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size();
      const int from = (rank() + size() - i) % size();
      const Head& head = heads_[static_cast<std::size_t>(from)];
      std::vector<std::byte>& part = parts_[static_cast<std::size_t>(from)];
      part = head.open();
      send(to, mine_.data() + head_.inline_bytes(), head_.rest());
      receive(from, part.data() + head.inline_bytes(), head.rest());
    }
    return true;
  }

  std::vector<std::byte> mine_;
  Head head_;
  std::vector<Head> heads_;  // by rank
  std::vector<std::vector<std::byte>> parts_;
  bool payload_queued_ = false;
};

}  // namespace
}  // namespace mpi

std::vector<std::vector<std::byte>> Communicator::all_gather(Purpose purpose, std::span<const std::byte> mine,
                                                             const OperationLabel& label) {
  const auto exchange = std::make_shared<mpi::AllGather>(implementation().channel, purpose, mine);
  mpi::issue(exchange, label).wait();
  return exchange->take();
}

}  // namespace matrixfsdp

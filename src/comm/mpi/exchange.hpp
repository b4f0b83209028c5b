#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "comm/mpi/pending.hpp"

namespace matrixfsdp::mpi {

/// How an exchange cuts and paces its messages.
struct Pace {
  std::int64_t block_bytes;  ///< longest message
  int window;                ///< most messages under way to, and from, each peer
};

/// Messages between this rank and its peers: for each peer, direction and lane (a tag of its own) a queue, sent and
/// received in order, a few at a time. Peers are served from rank + 1 upwards, so that no rank is everybody's first.
/// Derived classes add what is to be sent and received, in the constructor, in received() and in next_stage().
class Exchange : public Pending {
 public:
  Exchange(std::shared_ptr<Channel> channel, Purpose purpose, Pace pace);

  bool settled() noexcept final;
  void give_up() noexcept final;

 protected:
  /// Queues `bytes` bytes for `peer`, cut into blocks; nothing for none. The bytes live until the exchange is complete.
  /// They, and what is queued for `peer` after them, wait until the receive `after` (its number; -1: none) is complete.
  /// `number` (-1: none) is complete when they have been sent.
  void send(int peer, const void* data, std::int64_t bytes, std::int64_t after = -1, int lane = 0,
            std::int64_t number = -1);
  /// The other side. Both sides cut alike, and a message of another length than expected is an error. `number` (-1:
  /// none) is what sends may wait for.
  void receive(int peer, void* data, std::int64_t bytes, std::int64_t number = -1, int lane = 0);
  /// Receives, and what else is numbered, will have the numbers 0 to count - 1.
  void number_receives(std::int64_t count) { missing_.assign(static_cast<std::size_t>(count), 1); }
  /// What sends wait for under this number is there, by other means than a receive.
  void complete_number(std::int64_t number) {
    missing_[static_cast<std::size_t>(number)] = 0;
    queued_ = true;
  }

  [[nodiscard]] bool is_complete(std::int64_t number) const { return missing_[static_cast<std::size_t>(number)] == 0; }

  /// One message of at most `capacity` bytes; the sender's may be shorter, even empty.
  void send_message(int peer, const void* data, std::int64_t bytes);
  void receive_message(int peer, void* data, std::int64_t capacity);

  bool step() final;
  [[nodiscard]] std::uint64_t messages() const final { return completed_; }
  [[nodiscard]] std::string waiting_for() const final;
  /// A message has arrived: its number in the queue of its sender, from 0.
  virtual void received(int /*lane*/, std::int64_t /*message*/) {}
  /// A send that has a number is complete.
  virtual void sent() {}
  /// All queues are empty: queues the next stage and returns true, or false at the end.
  virtual bool next_stage() { return false; }

 private:
  static constexpr int lanes = 4;
  struct Span {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    bool exact = false;        ///< cut into blocks of known length
    std::int64_t number = -1;  ///< of this receive or send
    std::int64_t after = -1;   ///< of what this send waits for
  };
  struct Queue {
    int peer = 0;
    bool sends = false;
    int lane = 0;
    std::vector<Span> spans;
    std::size_t first_span = 0;
    std::int64_t offset = 0;  ///< within the first span
    std::int64_t next_message = 0;
    int under_way = 0;
  };
  struct Slot {
    std::size_t queue = 0;
    std::int64_t message = 0;
    std::int64_t expected = -1;  ///< bytes; -1: any
    std::int64_t number = -1;    ///< of what this message is a part of
    std::byte* place = nullptr;  ///< of what is received by way of a copy
  };

  Queue& queue_of(int peer, bool sends, int lane);
  void add(Queue& queue, const Span& span);
  void fill(Queue& queue, std::size_t index);
  bool completes(std::int64_t number);
  std::byte* staged(const Queue& queue, const Span& block, std::size_t slot);
  void start(Queue& queue, const Span& block, std::size_t slot);
  bool collect();
  void finish(int slot, const MPI_Status& status);

  Purpose purpose_;
  Pace pace_;
  std::vector<std::int64_t> index_of_send_;     // by lane and peer; -1: no queue yet
  std::vector<std::int64_t> index_of_receive_;  // likewise
  std::vector<Queue> queues_;
  std::vector<Slot> slots_;                     // as many as the pace's window for each queue, side by side
  std::vector<std::vector<std::byte>> copies_;  // of each slot, where the channel stages
  std::vector<MPI_Request> requests_;
  std::vector<int> completed_slots_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::int64_t> missing_;  // by number: messages that are not complete. They complete in any order
  std::uint64_t completed_ = 0;
  bool queued_ = false;  // something may be startable
};

}  // namespace matrixfsdp::mpi

#include "comm/mpi/exchange.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/check.hpp"

namespace matrixfsdp::mpi {

Exchange::Exchange(std::shared_ptr<Channel> shared_channel, Purpose purpose, Pace pace)
    : Pending(std::move(shared_channel)),
      purpose_(purpose),
      pace_(pace),
      index_of_send_(lanes * static_cast<std::size_t>(size()), -1),
      index_of_receive_(lanes * static_cast<std::size_t>(size()), -1) {}

Exchange::Queue& Exchange::queue_of(int peer, bool sends, int lane) {
  auto& index =
      (sends ? index_of_send_ : index_of_receive_)[static_cast<std::size_t>(std::int64_t{lane} * size() + peer)];
  if (index < 0) {
    index = static_cast<std::int64_t>(queues_.size());
    Queue queue;
    queue.peer = peer;
    queue.sends = sends;
    queue.lane = lane;
    queues_.push_back(std::move(queue));
    const std::size_t slots = queues_.size() * static_cast<std::size_t>(pace_.window);
    Slot slot;
    slot.queue = queues_.size() - 1;
    slots_.resize(slots, slot);
    requests_.resize(slots, MPI_REQUEST_NULL);
    completed_slots_.resize(slots);
    statuses_.resize(slots);
  }
  queued_ = true;
  return queues_[static_cast<std::size_t>(index)];
}

void Exchange::send(int peer, const void* data, std::int64_t bytes, std::int64_t after, int lane, std::int64_t number) {
  if (bytes == 0) return;
  // MPI takes the address of what it sends as const; the queue serves both directions.
  add(queue_of(peer, true, lane), {static_cast<std::byte*>(const_cast<void*>(data)), bytes, true, number, after});
}

void Exchange::receive(int peer, void* data, std::int64_t bytes, std::int64_t number, int lane) {
  if (bytes > 0) add(queue_of(peer, false, lane), {static_cast<std::byte*>(data), bytes, true, number});
}

void Exchange::add(Queue& queue, const Span& span) {
  queue.spans.push_back(span);
  if (span.number < 0) return;
  missing_[static_cast<std::size_t>(span.number)] = (span.bytes + pace_.block_bytes - 1) / pace_.block_bytes;
}

void Exchange::send_message(int peer, const void* data, std::int64_t bytes) {
  queue_of(peer, true, 0).spans.push_back({static_cast<std::byte*>(const_cast<void*>(data)), bytes, false});
}

void Exchange::receive_message(int peer, void* data, std::int64_t capacity) {
  queue_of(peer, false, 0).spans.push_back({static_cast<std::byte*>(data), capacity, false});
}

void Exchange::fill(Queue& queue, std::size_t index) {
  const auto window = static_cast<std::size_t>(pace_.window);
  for (std::size_t slot = index * window; slot < (index + 1) * window; ++slot) {
    if (queue.first_span == queue.spans.size() || queue.under_way == pace_.window) return;
    if (requests_[slot] != MPI_REQUEST_NULL) continue;
    const Span& span = queue.spans[queue.first_span];
    if (span.after >= 0 && !is_complete(span.after)) return;
    const std::int64_t bytes = span.exact ? std::min(pace_.block_bytes, span.bytes - queue.offset) : span.bytes;
    start(queue, {span.data + queue.offset, bytes, span.exact}, slot);
    slots_[slot].number = span.number;
    queue.offset += bytes;
    if (queue.offset == span.bytes) {
      queue.offset = 0;
      ++queue.first_span;
    }
  }
}

/// The block, or its copy in host memory. Messages of any length are in host memory anyway.
std::byte* Exchange::staged(const Queue& queue, const Span& block, std::size_t slot) {
  slots_[slot].place = nullptr;
  if (!channel()->stages || !block.exact) return block.data;
  copies_.resize(slots_.size());
  std::vector<std::byte>& copy = copies_[slot];
  copy.resize(static_cast<std::size_t>(block.bytes));
  if (queue.sends)
    std::memcpy(copy.data(), block.data, copy.size());
  else
    slots_[slot].place = block.data;
  return copy.data();
}

void Exchange::start(Queue& queue, const Span& block, std::size_t slot) {
  std::byte* data = staged(queue, block, slot);
  const int count = static_cast<int>(block.bytes);
  const int tag = channel()->tag_of(lanes * sequence() + static_cast<std::uint64_t>(queue.lane));
  if (queue.sends) {
    // What has not been received yet fills the other rank's memory: a block is complete only when it has been.
    const auto send = block.exact ? MPI_Issend : MPI_Isend;
    check(send(data, count, MPI_BYTE, queue.peer, tag, channel()->comm, &requests_[slot]),
          block.exact ? "MPI_Issend" : "MPI_Isend");
    channel()->bytes[purpose_] += block.bytes;
  } else {
    check(MPI_Irecv(data, count, MPI_BYTE, queue.peer, tag, channel()->comm, &requests_[slot]), "MPI_Irecv");
  }
  slots_[slot].message = queue.next_message++;
  slots_[slot].expected = block.exact && !queue.sends ? block.bytes : -1;
  ++queue.under_way;
}

bool Exchange::collect() {
  int count = 0;
  const int code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, completed_slots_.data(),
                                statuses_.data());
  if (code == MPI_ERR_IN_STATUS) {
    for (int i = 0; i < count; ++i)
      check(statuses_[static_cast<std::size_t>(i)].MPI_ERROR, "MPI_Testsome");
  }
  check(code, "MPI_Testsome");
  if (count == MPI_UNDEFINED) return false;
  for (int i = 0; i < count; ++i) {
    finish(completed_slots_[static_cast<std::size_t>(i)], statuses_[static_cast<std::size_t>(i)]);
  }
  return count > 0;
}

/// Whether one more message of those with this number was the last one.
bool Exchange::completes(std::int64_t number) {
  return number >= 0 && --missing_[static_cast<std::size_t>(number)] == 0;
}

void Exchange::finish(int slot, const MPI_Status& status) {
  const Slot done = slots_[static_cast<std::size_t>(slot)];
  const int peer = queues_[done.queue].peer;
  const bool sends = queues_[done.queue].sends;
  const int lane = queues_[done.queue].lane;
  --queues_[done.queue].under_way;
  ++completed_;
  queued_ = true;
  if (sends) {
    if (completes(done.number)) sent();
    return;
  }
  if (done.expected >= 0) {
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    if (bytes != done.expected) {
      throw CommunicationError(
          fmt::format("message {} of rank {} has {} bytes: expected {} (the ranks do not do the "
                      "same operation with the same table)",
                      done.message, peer, bytes, done.expected));
    }
  }
  if (done.place != nullptr)
    std::memcpy(done.place, copies_[static_cast<std::size_t>(slot)].data(), static_cast<std::size_t>(done.expected));
  completes(done.number);
  received(lane, done.message);
}

bool Exchange::step() {
  for (;;) {
    do {
      if (!queued_) continue;
      queued_ = false;
      for (std::size_t i = 0; i < queues_.size(); ++i)
        fill(queues_[i], i);
    } while (!requests_.empty() && collect());
    const bool idle = std::all_of(queues_.begin(), queues_.end(), [](const Queue& queue) {
      return queue.under_way == 0 && queue.first_span == queue.spans.size();
    });
    if (!idle) return false;
    if (!next_stage()) return true;
  }
}

std::string Exchange::waiting_for() const {
  std::string from;
  std::string to;
  for (const Queue& queue : queues_) {
    if (queue.under_way == 0 && queue.first_span == queue.spans.size()) continue;
    std::string& list = queue.sends ? to : from;
    list += fmt::format("{}{}", list.empty() ? "" : ", ", queue.peer);
  }
  if (from.empty() && to.empty()) return {};
  if (from.empty()) return "still sending to rank " + to;
  if (to.empty()) return "nothing more came from rank " + from;
  return fmt::format("nothing more came from rank {}; still sending to rank {}", from, to);
}

void Exchange::give_up() noexcept {
  if (!running() || settled()) return;
  for (std::size_t slot = 0; slot < requests_.size(); ++slot) {
    if (requests_[slot] == MPI_REQUEST_NULL) continue;
    if (queues_[slots_[slot].queue].sends)
      MPI_Request_free(&requests_[slot]);
    else
      MPI_Cancel(&requests_[slot]);
  }
}

bool Exchange::settled() noexcept {
  if (requests_.empty() || !running()) return true;  // MPI that has ended holds nothing
  int done = 0;
  const int code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, MPI_STATUSES_IGNORE);
  if (code == MPI_SUCCESS) return done != 0;
  return std::all_of(requests_.begin(), requests_.end(),
                     [](MPI_Request request) { return request == MPI_REQUEST_NULL; });
}

}  // namespace matrixfsdp::mpi

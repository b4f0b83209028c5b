#include "comm/nccl/engine.hpp"

#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "comm/backoff.hpp"
#include "comm/nccl/check.hpp"
#include "comm/nccl/operation.hpp"

namespace matrixfsdp::nccl {
namespace {

using Clock = std::chrono::steady_clock;

/// After an abort NCCL's kernels end by themselves; a device that has not come to an end by then is lost.
constexpr std::chrono::seconds abort_takes{5};

/// NCCL only moves these. Its bfloat16 is not in every nccl.h, and another type of 16 bits does as well.
ncclDataType_t nccl_type(DType type) {
  return type == DType::bfloat16 ? ncclFloat16 : ncclFloat32;
}

std::int64_t bytes_of(DType type, std::int64_t elements) {
  return static_cast<std::int64_t>(size_of(type)) * elements;
}

}  // namespace

Engine::Engine(std::shared_ptr<mpi::Channel> channel, ncclComm_t comm)
    : channel_(std::move(channel)), comm_(comm), space_(space_on(stream_.get())) {}

Engine::~Engine() {
  fail("the attachment is gone");
}

Request Engine::start(const std::shared_ptr<Operation>& operation, const OperationLabel& label) {
  if (comm_ != nullptr) queue_.push_back(operation);
  Request request(operation, label, channel_->rank, operation->sequence(), channel_->deadline);
  request.test();
  return request;
}

void Engine::require_alive() const {
  if (!why_.empty()) throw CommunicationError(fmt::format("the NCCL communicator of this rank was aborted: {}", why_));
}

bool Engine::settled() const {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError", comm_);
  check(state, "NCCL", comm_);
  return state != ncclInProgress;
}

void Engine::pump() {
  require_alive();
  try {
    while (settled()) {
      if (queue_.empty()) return;
      if (queue_.front()->enqueue_next())
        ++enqueued_;
      else
        queue_.pop_front();
    }
  } catch (const std::exception& error) {
    fail(error.what());
    throw;
  }
}

void Engine::fail(std::string_view why) noexcept {
  if (comm_ == nullptr) return;
  why_ = why;
  ncclCommAbort(std::exchange(comm_, nullptr));
  const auto left = std::exchange(queue_, {});
  try {
    Backoff backoff;
    for (const auto begin = Clock::now(); !stream_.idle() && Clock::now() - begin < abort_takes;)
      backoff.pause();
  } catch (const CommunicationError&) {
    return;  // the device has failed too: nothing more is read or written
  }
  for (const auto& operation : left)
    bury(operation);
  space_.reset();
}

void Engine::bury(std::shared_ptr<Operation> operation) noexcept {
  try {
    if (stream_.idle()) return;
  } catch (const CommunicationError&) {
    return;
  }
  // As long as Kokkos lives: the staging is Kokkos memory.
  Kokkos::push_finalize_hook([kept = std::move(operation)] {});
}

template <class Condition>
void Engine::wait_until(const Condition& condition, const char* what) {
  const auto begin = Clock::now();
  Backoff backoff;
  while (!condition()) {
    if (Clock::now() - begin > channel_->deadline) {
      throw CommunicationError(fmt::format("not complete after {:.1f} s: {}",
                                           std::chrono::duration<double>(channel_->deadline).count(), what));
    }
    backoff.pause();
  }
}

void Engine::end() {
  if (ended_) return;
  try {
    if (comm_ != nullptr) {
      wait_until(
          [this] {
            pump();
            return queue_.empty() && settled() && stream_.idle();
          },
          "operations on the stream");
      check(ncclCommFinalize(comm_), "ncclCommFinalize", comm_);
      wait_until([this] { return settled(); }, "ncclCommFinalize: not every rank has come");
      check(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy", nullptr);
      space_.reset();
    }
  } catch (const CommunicationError& error) {
    fail(error.what());
    throw CommunicationError(fmt::format("rank {}: end of the NCCL communicator: {}", channel_->rank, error.what()));
  }
  ended_ = true;
}

/// A group must be closed whatever happened inside it: the next one would be part of it.
void Engine::close_group(std::size_t operations) {
  check(ncclGroupEnd(), fmt::format("ncclGroupEnd of {} operations", operations).c_str(), comm_);
}

void Engine::count(Purpose purpose, std::int64_t bytes) {
  const std::lock_guard lock(channel_->mutex);  // a progress thread counts what MPI sends
  channel_->bytes[purpose] += bytes;
}

void Engine::run_group(const Group& group, Purpose purpose) {
  check(ncclGroupStart(), "ncclGroupStart", comm_);
  try {
    for (const auto& [sends, peer, message] : group) {
      const auto elements = static_cast<std::size_t>(message.elements);
      const ncclDataType_t type = nccl_type(message.type);
      if (sends) {
        check(ncclSend(message.data, elements, type, peer, comm_, stream()), "ncclSend", comm_);
        count(purpose, bytes_of(message.type, message.elements));
      } else {
        check(ncclRecv(message.data, elements, type, peer, comm_, stream()), "ncclRecv", comm_);
      }
    }
  } catch (const CommunicationError&) {
    ncclGroupEnd();
    throw;
  }
  close_group(group.size());
}

void Engine::run_broadcasts(const std::vector<Segment>& segments, Purpose purpose) {
  check(ncclGroupStart(), "ncclGroupStart", comm_);
  try {
    for (const Segment& segment : segments) {
      check(ncclBroadcast(segment.send, segment.receive, static_cast<std::size_t>(segment.elements),
                          nccl_type(segment.type), segment.owner, comm_, stream()),
            "ncclBroadcast", comm_);
      if (segment.owner == channel_->rank)
        count(purpose, bytes_of(segment.type, segment.elements) * (channel_->size - 1));
    }
  } catch (const CommunicationError&) {
    ncclGroupEnd();
    throw;
  }
  close_group(segments.size());
}

void Engine::copy(const void* from, void* to, std::int64_t bytes) const {
  check(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault, stream()), "cudaMemcpyAsync");
}

void Engine::run_kernel(Kernel& kernel) {
  enqueue_kernel(stream(), *space_, kernel);
}

}  // namespace matrixfsdp::nccl

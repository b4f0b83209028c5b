#include "io/checkpoint/job.hpp"

#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/blocked_signals.hpp"

namespace matrixfsdp::io {
namespace {

constexpr std::chrono::seconds patience{5};

}  // namespace

struct Job::Shared {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::optional<Failure> failure;
  std::atomic<bool> cancelled{false};
};

Job::Job(Body body) : shared_(std::make_shared<Shared>()) {
  const matrixfsdp::detail::BlockedSignals blocked;
  thread_ = std::thread([shared = shared_, body = std::move(body)]() mutable {
    std::optional<Failure> failure;
    try {
      failure = attempt([&] { body(shared->cancelled); });
    } catch (const Cancelled&) {
      failure.reset();
    }
    body = nullptr;  // what it owns goes before anybody hears of the end
    const std::lock_guard lock(shared->mutex);
    shared->failure = std::move(failure);
    shared->done = true;
    shared->ended.notify_all();
  });
}

Job::~Job() {
  cancel();
  if (wait_until(std::chrono::steady_clock::now() + patience)) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

void Job::cancel() {
  shared_->cancelled = true;
}

bool Job::done() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->done;
}

bool Job::wait_until(std::chrono::steady_clock::time_point end) const {
  std::unique_lock lock(shared_->mutex);
  return shared_->ended.wait_until(lock, end, [&] { return shared_->done; });
}

std::optional<Failure> Job::failure() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->failure;
}

}  // namespace matrixfsdp::io

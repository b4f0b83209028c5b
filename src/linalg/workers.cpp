#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/workers.hpp>

#include "core/blocked_signals.hpp"
#include "linalg/one_thread.hpp"
#include "tensor/for_range.hpp"
#include "tensor/own_kernels.hpp"

namespace matrixfsdp::linalg {

// One mutex for all: what it guards is touched once for a matrix or a piece of a product, milliseconds of work.
struct Workers::Implementation {
  /// Pieces that their owner does, with whoever is idle. On the owner's stack.
  struct Shared {
    Call call;
    std::int64_t pieces = 0;
    std::int64_t next = 0;
    int running = 0;
    std::exception_ptr error;
    Shared* below = nullptr;  ///< shared before it and not yet done
  };
  using Lock = std::unique_lock<std::mutex>;

  int count = 1;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable started;   ///< a round, or the end
  std::condition_variable changed;   ///< something is shared, or all parts have ended
  std::condition_variable finished;  ///< the last piece of something shared
  std::uint64_t round = 0;
  bool ending = false;
  bool active = false;
  Call part;
  int working = 0;  ///< workers whose part of this round has not ended
  int idle = 0;     ///< workers that wait for something to help with
  std::vector<std::exception_ptr> errors;
  Shared* top = nullptr;

  ~Implementation() { end(); }
  void start();
  void end() noexcept;
  void wait_for_rounds(int worker);
  void take_part(Lock& lock, int worker);
  void help(Lock& lock);
  static bool run_piece(Lock& lock, Shared& shared);
  [[nodiscard]] Shared* open() const;
  void remove(Shared& shared);
};

void Workers::Implementation::start() {
  const matrixfsdp::detail::BlockedSignals blocked;
  try {
    for (int worker = 1; worker < count; ++worker)
      threads.emplace_back([this, worker] { wait_for_rounds(worker); });
  } catch (const std::system_error& refused) {
    throw Error(fmt::format("{} workers: thread {} cannot be started: {}", count, threads.size() + 2, refused.what()));
  }
}

void Workers::Implementation::end() noexcept {
  {
    const std::lock_guard lock(mutex);
    ending = true;
  }
  started.notify_all();
  for (std::thread& thread : threads)
    thread.join();
  threads.clear();
}

void Workers::Implementation::wait_for_rounds(int worker) {
  const matrixfsdp::detail::OwnKernels own;
  detail::use_one_openmp_thread();
  Lock lock(mutex);
  for (std::uint64_t seen = 0;;) {
    started.wait(lock, [&] { return ending || round != seen; });
    if (ending) return;
    seen = round;
    take_part(lock, worker);
  }
}

/// Its own part of the round, then pieces of others' until all parts have ended.
void Workers::Implementation::take_part(Lock& lock, int worker) {
  const std::uint64_t mine = round;
  const Call call = part;
  lock.unlock();
  std::exception_ptr error;
  try {
    call(worker);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  errors[static_cast<std::size_t>(worker)] = error;
  if (--working == 0) changed.notify_all();
  // A slow sleeper may wake when the next round has begun already, of which it has a part.
  while (working > 0 && round == mine)
    help(lock);
}

void Workers::Implementation::help(Lock& lock) {
  if (Shared* const shared = open()) {
    if (run_piece(lock, *shared)) finished.notify_all();
    return;
  }
  ++idle;
  changed.wait(lock);
  --idle;
}

/// Of what is shared, something with a piece that nobody has taken.
Workers::Implementation::Shared* Workers::Implementation::open() const {
  for (Shared* shared = top; shared != nullptr; shared = shared->below) {
    if (shared->next < shared->pieces) return shared;
  }
  return nullptr;
}

/// Whether that was the last piece to end.
bool Workers::Implementation::run_piece(Lock& lock, Shared& shared) {
  const std::int64_t piece = shared.next++;
  ++shared.running;
  lock.unlock();
  std::exception_ptr error;
  try {
    shared.call(piece);
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  if (error && !shared.error) shared.error = error;
  if (error) shared.next = shared.pieces;
  --shared.running;
  return shared.running == 0 && shared.next >= shared.pieces;
}

void Workers::Implementation::remove(Shared& shared) {
  Shared** link = &top;
  while (*link != &shared)
    link = &(*link)->below;
  *link = shared.below;
}

Workers::Workers(int count) : implementation_(std::make_unique<Implementation>()) {
  if (count < 1) throw ContractError(fmt::format("{} workers: expected at least 1", count));
  implementation_->count = usable(count);
  implementation_->errors.resize(static_cast<std::size_t>(implementation_->count));
  implementation_->start();
}

Workers::~Workers() = default;
Workers::Workers(Workers&&) noexcept = default;
Workers& Workers::operator=(Workers&&) noexcept = default;

int Workers::usable(int asked) {
  return matrixfsdp::detail::kernels_run_on_host && !batches_products() ? asked : 1;
}

int Workers::count() const {
  return implementation_->count;
}

void Workers::run_call(const Call& call) {
  Implementation& all = *implementation_;
  require(!all.active, "Workers::run: called from inside of a part, expected one round at a time");
  const struct Active {
    explicit Active(bool& flag_) : flag(flag_) { flag = true; }
    ~Active() { flag = false; }
    Active(const Active&) = delete;
    Active& operator=(const Active&) = delete;
    bool& flag;
  } active(all.active);
  const detail::OneThreadPerProduct one;
  if (all.count == 1) {
    call(0);
    return;
  }
  const matrixfsdp::detail::OwnKernels own;
  Implementation::Lock lock(all.mutex);
  all.part = call;
  all.working = all.count;
  ++all.round;
  all.started.notify_all();
  all.take_part(lock, 0);
  for (const std::exception_ptr& error : all.errors) {
    if (error) std::rethrow_exception(error);
  }
}

void Workers::share_call(std::int64_t pieces, const Call& call) {
  Implementation& all = *implementation_;
  if (all.count == 1 || pieces <= 1) {
    for (std::int64_t piece = 0; piece < pieces; ++piece)
      call(piece);
    return;
  }
  Implementation::Lock lock(all.mutex);
  Implementation::Shared shared{call, pieces, 0, 0, nullptr, all.top};
  all.top = &shared;
  if (all.idle > 0) all.changed.notify_all();
  while (shared.next < shared.pieces)
    Implementation::run_piece(lock, shared);
  all.finished.wait(lock, [&] { return shared.running == 0; });
  all.remove(shared);
  if (shared.error) std::rethrow_exception(shared.error);
}

}  // namespace matrixfsdp::linalg

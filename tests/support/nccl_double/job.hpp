#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <nccl.h>

/// What the processes of one communicator share: nameless memory of the process that made the unique id, which the
/// others open through /proc, so that nothing is left behind however they end.
namespace matrixfsdp::nccl_double {

inline constexpr int most_ranks = 8;
inline constexpr std::uint64_t ring_bytes = std::uint64_t{1} << 16;

/// Bytes from one rank to another. Positions only grow.
struct Ring {
  std::atomic<std::uint64_t> written;
  std::atomic<std::uint64_t> read;
  std::array<std::byte, ring_bytes> data;

  [[nodiscard]] std::uint64_t room() const { return ring_bytes - (written.load() - read.load()); }
  [[nodiscard]] std::uint64_t filled() const { return written.load() - read.load(); }
  /// As many of `bytes` as there is room for.
  std::uint64_t put(const std::byte* from, std::uint64_t bytes);
  std::uint64_t take(std::byte* to, std::uint64_t bytes);
};

enum class Membership : int { absent, joined, finalizing, aborted };

struct Member {
  std::atomic<Membership> state;
  std::array<char, 16> device;
};

struct Job {
  std::uint64_t token;
  std::int64_t process;  ///< that made it
  std::int64_t file;     ///< of its
  std::array<Member, most_ranks> members;
  std::array<Ring, most_ranks * most_ranks> rings;

  [[nodiscard]] Ring& ring(int from, int to) {
    return rings[static_cast<std::size_t>(from) * most_ranks + static_cast<std::size_t>(to)];
  }
  /// All `size` members are in `state`, or beyond it.
  [[nodiscard]] bool all(int size, Membership state) const;
  [[nodiscard]] bool any_aborted(int size) const;
  /// In the process that made it: no other will open it.
  void close_file() const;
};

/// Makes a job and its id. It lives as long as this process or one that has opened it. False where the system refuses.
bool make_job(ncclUniqueId& id);

/// The job of `id`; null where there is none.
std::shared_ptr<Job> open_job(const ncclUniqueId& id);

}  // namespace matrixfsdp::nccl_double

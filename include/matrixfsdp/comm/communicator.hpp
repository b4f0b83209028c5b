#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <matrixfsdp/comm/request.hpp>

namespace matrixfsdp {

/// Why a byte is sent. Every byte has exactly one purpose.
enum class Purpose {
  unshard,    ///< weights of units, before they are computed with
  reduce,     ///< gradients and their sums
  clip,       ///< the sums of squares of the gradients' norm
  optimizer,  ///< what an optimizer's step sends, and new weights after it: 0 for matrix-fsdp
  health,     ///< figures of matrices, to rank 0
  other,      ///< all else: agreement at the start, losses, checkpoints, calibration
};
/// Values of Purpose.
inline constexpr std::size_t purpose_count = 6;

/// "unshard", "reduce", "clip", "optimizer", "health", "other": keys of a metrics line. Unchecked: a value of the
/// enumeration.
std::string_view name_of(Purpose purpose);

/// Payload bytes this rank has handed to MPI for other ranks, by purpose. Copies to itself do not count.
struct ByteCounts {
  std::array<std::int64_t, purpose_count> sent{};  ///< bytes, by purpose

  /// Bytes of one purpose.
  [[nodiscard]] std::int64_t& operator[](Purpose purpose) { return sent[static_cast<std::size_t>(purpose)]; }
  /// Bytes of one purpose.
  [[nodiscard]] std::int64_t operator[](Purpose purpose) const { return sent[static_cast<std::size_t>(purpose)]; }
  /// Bytes of all purposes.
  [[nodiscard]] std::int64_t total() const;
};

/// The ranks of one shard group. All ranks issue the same operations in the same order, from one thread. Only
/// point-to-point, non-blocking MPI is used, so every wait can test, yield, sleep and end. Movable, not copyable.
///
/// Made by adopt, duplicate or split (comm/mpi.hpp). No static state: several communicators live side by side.
///
/// Every operation throws CommunicationError, which names it by its label, when the deadline passes, when MPI fails,
/// and when a peer's message is not of this operation. The operation is then lost, and so is the order of what follows.
class Communicator {
 public:
  Communicator(Communicator&&) noexcept;             ///< the other may only be destroyed or assigned to
  Communicator& operator=(Communicator&&) noexcept;  ///< what was here ends as by the destructor
  /// Frees a duplicated communicator, unless an exception unwinds, MPI is finalized, or a request of it was destroyed
  /// before it was complete (what is left of it must not meet another communicator's messages). Never throws, never
  /// waits.
  ~Communicator();

  [[nodiscard]] int rank() const;  ///< of this process, 0 to size() - 1
  [[nodiscard]] int size() const;  ///< ranks: W

  /// Longest time that any wait on this communicator lasts; then CommunicationError. Default 300 s. A new one holds for
  /// operations that are issued from then on; with 0 or less a wait takes only what is complete at once.
  [[nodiscard]] std::chrono::milliseconds deadline() const;
  void set_deadline(std::chrono::milliseconds deadline);  ///< on this rank alone

  /// What this rank has sent since the communicator was made.
  [[nodiscard]] ByteCounts bytes() const;

  /// Collective. Every rank gets every rank's bytes (any sizes, empty ones too), by rank.
  std::vector<std::vector<std::byte>> all_gather(Purpose purpose, std::span<const std::byte> mine,
                                                 const OperationLabel& label);

  /// Collective. Rank `root`'s bytes on every rank; `data` of the others is not read. `root` is the same everywhere.
  /// Throws ContractError unless 0 <= root < size().
  std::vector<std::byte> broadcast(Purpose purpose, std::span<const std::byte> data, int root,
                                   const OperationLabel& label);

  /// Collective. Returns when every rank has come here. No payload.
  void barrier(const OperationLabel& label);

  struct Implementation;  ///< of the backend
  /// By the factories of comm/mpi.hpp.
  explicit Communicator(std::unique_ptr<Implementation> implementation);
  /// For backends; undefined after a move.
  [[nodiscard]] Implementation& implementation() { return *implementation_; }
  /// For backends; undefined after a move.
  [[nodiscard]] const Implementation& implementation() const { return *implementation_; }

 private:
  std::unique_ptr<Implementation> implementation_;
};

namespace detail {
/// Throws CommunicationError that names the operation, the rank and both sizes unless every part has `bytes` bytes.
void require_part_sizes(const std::vector<std::vector<std::byte>>& parts, std::size_t bytes,
                        const OperationLabel& label);
}  // namespace detail

/// all_gather of `mine`, a trivially copyable value of the same type on every rank (CommunicationError on all ranks
/// where another size arrives), by rank.
template <class T>
std::vector<T> all_gather_value(Communicator& communicator, Purpose purpose, const T& mine,
                                const OperationLabel& label) {
  static_assert(std::is_trivially_copyable_v<T>);
  const auto parts = communicator.all_gather(purpose, std::as_bytes(std::span<const T, 1>(&mine, 1)), label);
  detail::require_part_sizes(parts, sizeof(T), label);
  std::vector<T> values;
  values.reserve(parts.size());
  for (const auto& part : parts) {
    T value;
    std::memcpy(&value, part.data(), sizeof(T));
    values.push_back(value);
  }
  return values;
}

/// Error handling that all ranks share: each rank passes its own message (empty: no error). When any is not empty, all
/// ranks throw the same InputError with the message of the first rank that has one, so that the program ends in an
/// orderly way with exit code 2. Collective.
void agree_on_input(Communicator& communicator, std::string_view error);

/// Throws CommunicationError on every rank unless all ranks pass the same value: names `what`, and for the first rank
/// that differs from rank 0 both values and both ranks. Collective.
void require_equal(Communicator& communicator, std::uint64_t value, std::string_view what);

}  // namespace matrixfsdp

#include <numeric>

#include <fmt/format.h>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp {

std::string_view name_of(Purpose purpose) {
  static constexpr std::array<std::string_view, purpose_count> names{"unshard", "reduce", "clip", "optimizer", "other"};
  return names[static_cast<std::size_t>(purpose)];
}

std::int64_t ByteCounts::total() const {
  return std::accumulate(sent.begin(), sent.end(), std::int64_t{0});
}

void agree_on_input(Communicator& communicator, std::string_view error) {
  const auto messages = communicator.all_gather(
      Purpose::other, std::as_bytes(std::span<const char>(error.data(), error.size())), {"agreement on input", "", ""});
  for (const auto& message : messages) {
    if (message.empty()) continue;
    throw InputError(std::string(reinterpret_cast<const char*>(message.data()), message.size()));
  }
}

void require_equal(Communicator& communicator, std::uint64_t value, std::string_view what) {
  const auto values =
      all_gather_value(communicator, Purpose::other, value, {fmt::format("comparison of {}", what), "", ""});
  for (std::size_t rank = 1; rank < values.size(); ++rank) {
    if (values[rank] == values[0]) continue;
    throw CommunicationError(fmt::format("{} differs between ranks: {} on rank 0, {} on rank {}: expected the same",
                                         what, values[0], values[rank], rank));
  }
}

}  // namespace matrixfsdp

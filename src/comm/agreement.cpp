#include <fmt/format.h>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp {

namespace detail {

void require_part_sizes(const std::vector<std::vector<std::byte>>& parts, std::size_t bytes,
                        const OperationLabel& label) {
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    if (parts[rank].size() == bytes) continue;
    throw CommunicationError(fmt::format("{}: {} bytes from rank {}, expected {}: ranks exchange different things",
                                         to_string(label), parts[rank].size(), rank, bytes));
  }
}

}  // namespace detail

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

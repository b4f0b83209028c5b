#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "comm/mpi/exchange.hpp"

namespace matrixfsdp::mpi {

/// Messages of all_gather and broadcast are as long as the channel allows.
inline Pace whole_message_pace(const Channel& channel) {
  return {channel.piece_bytes, 1};
}

/// First message of data whose size the receiver does not know: the size in 8 bytes, then as much of the data as fits.
/// Most of our all_gathers are scalars, so that they need one message. What is left travels behind it.
class Head {
 public:
  static constexpr std::int64_t inline_capacity = 1016;
  static constexpr std::int64_t capacity = inline_capacity + 8;

  Head() = default;
  explicit Head(std::span<const std::byte> data) : size_(static_cast<std::int64_t>(data.size())) {
    if (size_ > 0) std::memcpy(inline_.data(), data.data(), static_cast<std::size_t>(inline_bytes()));
  }

  void* data() { return &size_; }
  [[nodiscard]] std::int64_t bytes() const { return 8 + inline_bytes(); }
  [[nodiscard]] std::int64_t inline_bytes() const { return std::min(size_, inline_capacity); }
  [[nodiscard]] std::int64_t rest() const { return size_ - inline_bytes(); }

  /// A vector of the full size that begins with the inline bytes.
  [[nodiscard]] std::vector<std::byte> open() const {
    std::vector<std::byte> data(static_cast<std::size_t>(size_));
    if (size_ > 0) std::memcpy(data.data(), inline_.data(), static_cast<std::size_t>(inline_bytes()));
    return data;
  }

 private:
  std::int64_t size_ = 0;
  std::array<std::byte, static_cast<std::size_t>(inline_capacity)> inline_{};
};
static_assert(sizeof(Head) == Head::capacity);

}  // namespace matrixfsdp::mpi

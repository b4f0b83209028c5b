#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace matrixfsdp::io {

/// XXH3 with 64 bits (xxHash 0.8), seed 0, of bytes that arrive in any pieces. Finds damage; it is no protection
/// against someone who wants a collision.
class Checksum {
 public:
  Checksum();  ///< of no bytes
  ~Checksum();
  Checksum(Checksum&&) noexcept;             ///< the other may only be destroyed or assigned to
  Checksum& operator=(Checksum&&) noexcept;  ///< as the constructor

  /// The bytes that follow those before.
  void update(std::span<const std::byte> bytes);
  /// Of all bytes so far; more may follow.
  [[nodiscard]] std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Of bytes that are all there.
std::uint64_t checksum_of(std::span<const std::byte> bytes);

/// 16 lower-case hexadecimal digits, most significant first: how a checksum is written in a checkpoint.
std::string checksum_text(std::uint64_t checksum);
/// Inverse; nothing for any other text, upper-case digits among them.
std::optional<std::uint64_t> parse_checksum(std::string_view text);

}  // namespace matrixfsdp::io

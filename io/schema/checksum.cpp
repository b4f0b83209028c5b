#include <new>

#include <fmt/format.h>
#include <xxhash.h>

#include <matrixfsdp/schema/checksum.hpp>

namespace matrixfsdp::io {

struct Checksum::State {
  State() : value(XXH3_createState()) {
    if (value == nullptr || XXH3_64bits_reset(value) != XXH_OK) throw std::bad_alloc();
  }
  ~State() { XXH3_freeState(value); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* value;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {}
Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_64bits_update(state_->value, bytes.data(), bytes.size());
}

std::uint64_t Checksum::digest() const {
  return XXH3_64bits_digest(state_->value);
}

std::uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string checksum_text(std::uint64_t checksum) {
  return fmt::format("{:016x}", checksum);
}

std::optional<std::uint64_t> parse_checksum(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    std::uint64_t digit = 0;
    if (c >= '0' && c <= '9') {
      digit = static_cast<std::uint64_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      digit = static_cast<std::uint64_t>(c - 'a') + 10;
    } else {
      return std::nullopt;
    }
    value = (value << 4) | digit;
  }
  return value;
}

}  // namespace matrixfsdp::io

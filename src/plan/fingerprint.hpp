#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp::detail {

/// Collects values as little-endian bytes, strings and lists with their length first, and hashes them: equal on
/// machines of any byte order.
class Fingerprint {
 public:
  void add(std::int64_t value) {
    for (int shift = 0; shift < 64; shift += 8)
      bytes_ += static_cast<char>((static_cast<std::uint64_t>(value) >> shift) & 0xffU);
  }
  void add(double value) { add(std::bit_cast<std::int64_t>(value)); }
  void add(std::string_view text) {
    add_size(text.size());
    bytes_ += text;
  }
  void add(Interval interval) {
    add(interval.begin);
    add(interval.end);
  }
  void add_size(std::size_t size) { add(static_cast<std::int64_t>(size)); }

  [[nodiscard]] std::uint64_t value() const { return stream_of(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace matrixfsdp::detail

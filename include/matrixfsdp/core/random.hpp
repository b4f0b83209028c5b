#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>

namespace matrixfsdp {

/// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011): a bijection of a
/// 128-bit counter under a 64-bit key. No state: the same (key, counter) gives the same four words on every rank.
constexpr std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

/// 64-bit FNV-1a (Fowler, Noll, Vo) of the bytes of a name: the stream id of everything that is random "per name".
constexpr std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : name)
    hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3ULL;
  return hash;
}

/// Random numbers addressed by (seed, stream, index): any rank computes any element without drawing the others, so
/// initial weights and samples do not depend on the world size or on the order of use.
class CounterRandom {
 public:
  /// `seed` is the run's, `stream` says what the numbers are for: stream_of a name.
  constexpr CounterRandom(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  /// Four independent 32-bit words of `index`.
  [[nodiscard]] constexpr std::array<std::uint32_t, 4> words(std::uint64_t index) const {
    return philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                   static_cast<std::uint32_t>(stream_), static_cast<std::uint32_t>(stream_ >> 32)},
                  {static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32)});
  }

  /// Uniform in [0, 1) with 53 bits.
  [[nodiscard]] constexpr double uniform(std::uint64_t index) const {
    const auto w = words(index);
    const std::uint64_t bits = (std::uint64_t{w[0]} << 32) | w[1];
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
  }

  /// Uniform integer in [0, bound) (bias below bound / 2^64); 0 for a bound of 0.
  [[nodiscard]] constexpr std::uint64_t below(std::uint64_t index, std::uint64_t bound) const {
    const auto w = words(index);
    const std::uint64_t bits = (std::uint64_t{w[0]} << 32) | w[1];
    return static_cast<std::uint64_t>((static_cast<uint128>(bits) * bound) >> 64);
  }

  /// Standard normal by Box and Muller (1958), cosine branch, in double; |x| < 6.7, the most that 32 bits give.
  [[nodiscard]] double normal(std::uint64_t index) const {
    const auto w = words(index);
    const double u = (static_cast<double>(w[0]) + 1.0) * 0x1.0p-32;  // in (0, 1]
    const double v = static_cast<double>(w[1]) * 0x1.0p-32;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v);
  }

 private:
  __extension__ typedef unsigned __int128 uint128;

  std::uint64_t seed_;
  std::uint64_t stream_;
};

}  // namespace matrixfsdp

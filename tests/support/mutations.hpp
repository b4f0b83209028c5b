#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <matrixfsdp/core/random.hpp>

namespace matrixfsdp::testing {

/// Damage number `index` of a text: up to four of flipped bits, other bytes, pieces taken out, doubled or moved, and
/// digits or signs put in; or a cut at any place. Deterministic.
inline std::string mutated(std::string text, std::uint64_t seed, std::uint64_t index) {
  const CounterRandom random(seed, index);
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t bound) { return static_cast<std::size_t>(random.below(draw++, bound)); };
  const std::string signs = "0123456789-.eE+\"{}[]:,\\ \xff";
  const std::size_t changes = 1 + below(4);
  for (std::size_t change = 0; change < changes && !text.empty(); ++change) {
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(64, text.size() - at));
    const std::size_t to = below(text.size());
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(to, text.substr(at, length));
        break;
      case 4:
        text.replace(to, std::min(length, text.size() - to), text.substr(at, length));
        break;
      case 5:
        text.insert(at, 1, signs[below(signs.size())]);
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

}  // namespace matrixfsdp::testing

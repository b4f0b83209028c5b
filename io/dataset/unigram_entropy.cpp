#include <algorithm>
#include <cmath>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/token_data.hpp>

#include "io/dataset/window.hpp"

namespace matrixfsdp::io {

double unigram_entropy(const TokenRange& range, std::int64_t vocabulary) {
  require(vocabulary >= 1, "unigram entropy: expected a vocabulary of at least 1");
  constexpr std::int64_t block = 64 * 1024;
  std::vector<std::int32_t> tokens;
  std::vector<std::int64_t> counts(static_cast<std::size_t>(vocabulary), 0);
  for (std::int64_t begin = 0; begin < range.size(); begin += block) {
    tokens.resize(static_cast<std::size_t>(std::min(block, range.size() - begin)));
    range.read(begin, tokens);
    check_tokens(range, begin, tokens, vocabulary);
    for (const std::int32_t token : tokens)
      ++counts[static_cast<std::size_t>(token)];
  }
  double entropy = 0.0;
  for (const std::int64_t count : counts) {
    if (count == 0) continue;
    const double share = static_cast<double>(count) / static_cast<double>(range.size());
    entropy -= share * std::log(share);
  }
  return entropy;
}

}  // namespace matrixfsdp::io

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/token_data.hpp>

namespace matrixfsdp::io {

TokenRange::TokenRange(const TokenData& data, Interval tokens) : data_(&data), tokens_(tokens) {
  if (tokens.begin < 0 || tokens.begin > tokens.end || tokens.end > data.size()) {
    throw ContractError(fmt::format("range [{}, {}): the data have {} tokens", tokens.begin, tokens.end, data.size()));
  }
}

const TokenData& TokenRange::data() const {
  require(data_ != nullptr, "range of tokens: it has no data");
  return *data_;
}

void TokenRange::read(std::int64_t begin, std::span<std::int32_t> tokens) const {
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (begin < 0 || begin > size() - count) {
    throw ContractError(fmt::format("tokens [{}, {}): the range has {}", begin, begin + count, size()));
  }
  data().read(tokens_.begin + begin, tokens);
}

TokenSplit hold_out(const TokenData& data, double fraction, std::int64_t sequence_length) {
  if (!(fraction > 0.0 && fraction < 1.0)) {
    throw InputError(fmt::format("held-out fraction {}: expected more than 0 and less than 1", fraction));
  }
  require(sequence_length >= 1, "held-out tokens: expected a sequence length of at least 1");
  const std::int64_t sequence = sequence_length + 1;
  if (data.size() < 2 * sequence) {
    throw InputError(
        fmt::format("data: {} tokens are too few to train and to validate on; expected at least two sequences of {}",
                    data.size(), sequence));
  }
  auto held = static_cast<std::int64_t>(fraction * static_cast<double>(data.size()));
  held = held < sequence ? sequence : held;
  if (data.size() - held < sequence) {
    throw InputError(fmt::format("held-out fraction {} of {} tokens leaves {} to train on; expected at least {}",
                                 fraction, data.size(), data.size() - held, sequence));
  }
  const std::int64_t cut = data.size() - held;
  return {TokenRange(data, {0, cut}), TokenRange(data, {cut, data.size()})};
}

}  // namespace matrixfsdp::io

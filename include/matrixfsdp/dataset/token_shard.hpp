#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <matrixfsdp/dataset/token_data.hpp>

namespace matrixfsdp::io {

/// Most tokens of a shard: its header counts them in 31 bits.
inline constexpr std::int64_t most_shard_tokens = 0x7fffffff;

/// Largest id that a shard's tokens can have: 65535 or 2147483647. Throws ContractError for text.
std::int64_t largest_token(TokenFormat format);

/// An llm.c token shard that is being written. It never replaces a file, and nothing reads it before publish(): the
/// header, which readers look at first, is written last.
class TokenShardWriter {
 public:
  /// Creates the file. Throws InputError, naming it, where it exists or cannot be created, or has no name in `.bin`, by
  /// which shards are known; ContractError for text.
  TokenShardWriter(const std::string& path, TokenFormat format);
  /// Removes a file that was not published.
  ~TokenShardWriter();
  TokenShardWriter(const TokenShardWriter&) = delete;
  TokenShardWriter& operator=(const TokenShardWriter&) = delete;

  /// Appends. Throws ContractError for a token that is negative or beyond largest_token; InputError beyond
  /// most_shard_tokens; IoError where the disk fails.
  void write(std::span<const std::int32_t> tokens);
  /// Tokens written so far.
  [[nodiscard]] std::int64_t size() const;

  /// Writes the header and waits until everything is on disk. The last call. Throws ContractError without a token,
  /// which readers would refuse; IoError where the disk fails.
  void publish();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp::io

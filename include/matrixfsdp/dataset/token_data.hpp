#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/shape.hpp>

namespace matrixfsdp::io {

/// How tokens are stored.
enum class TokenFormat {
  text,          ///< any file: one token per byte, vocabulary 256
  shard_uint16,  ///< llm.c `.bin`: 256 int32 (magic 20240520, version 1, token count), then uint16 tokens
  shard_uint32,  ///< llm.c `.bin` of Llama 3: magic 20240801, version 7, uint32 tokens
};

/// "text", "llm.c uint16 shard", "llm.c uint32 shard".
std::string_view name_of(TokenFormat format);

class TokenRange;

/// A read-only sequence of tokens: files one after another, in the given order. Files are mapped, not copied, and must
/// not shrink while they are in use. Counts are 64-bit. Movable, not copyable.
class TokenData {
 public:
  /// Opens files, and folders (all their regular files, sorted by name, without hidden ones and without subfolders). A
  /// name that ends in `.bin` is a token shard, any other is text; they do not mix. Throws InputError, naming the file,
  /// for: an empty list, a path that is missing, unreadable or neither file nor folder, an empty file or folder, a
  /// shard with a wrong magic number, version, count or size, and formats that mix.
  explicit TokenData(const std::vector<std::string>& paths);
  ~TokenData();
  TokenData(TokenData&&) noexcept;             ///< ranges of the other are not valid any more
  TokenData& operator=(TokenData&&) noexcept;  ///< as the constructor

  [[nodiscard]] std::int64_t size() const;   ///< tokens of all files
  [[nodiscard]] TokenFormat format() const;  ///< of all files
  /// Tokens are bytes.
  [[nodiscard]] bool is_text() const { return format() == TokenFormat::text; }

  /// Tokens [begin, begin + tokens.size()), across files. Throws ContractError outside [0, size()). A uint32 token
  /// beyond 2^31 - 1 comes out negative.
  void read(std::int64_t begin, std::span<std::int32_t> tokens) const;

  /// Which file holds a token: "FILE, token 17" (17 within the file). For messages. Throws ContractError outside
  /// [0, size()).
  [[nodiscard]] std::string locate(std::int64_t position) const;

  /// Everything.
  [[nodiscard]] TokenRange all() const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// An interval of a TokenData. Non-owning: valid while the data live, at the same address.
class TokenRange {
 public:
  TokenRange() = default;  ///< empty
  /// Throws ContractError unless `tokens` is inside the data.
  TokenRange(const TokenData& data, Interval tokens);

  /// Tokens.
  [[nodiscard]] std::int64_t size() const { return tokens_.size(); }
  /// Positions within the data.
  [[nodiscard]] Interval interval() const { return tokens_; }
  /// Throws ContractError for a default-constructed range.
  [[nodiscard]] const TokenData& data() const;

  /// Tokens [begin, begin + tokens.size()) of the range. Throws ContractError outside of it.
  void read(std::int64_t begin, std::span<std::int32_t> tokens) const;

 private:
  const TokenData* data_ = nullptr;
  Interval tokens_;
};

/// Training and validation tokens of one TokenData.
struct TokenSplit {
  TokenRange training;    ///< what comes first
  TokenRange validation;  ///< the rest
};

/// Holds out the last `fraction` of the tokens for validation; at least one sequence (`sequence_length` + 1 tokens).
/// Throws InputError unless 0 < fraction < 1 and both parts have at least one sequence, ContractError for a
/// sequence_length below 1.
TokenSplit hold_out(const TokenData& data, double fraction, std::int64_t sequence_length);

/// Entropy of the token frequencies of the range, in nats per token: the loss that a model reaches which ignores
/// context. Exact: reads every token once, so it also checks them all against the model's `vocabulary` (InputError with
/// file, position, token, vocabulary). 0 for an empty range. Throws ContractError for a vocabulary below 1.
double unigram_entropy(const TokenRange& range, std::int64_t vocabulary);

}  // namespace matrixfsdp::io

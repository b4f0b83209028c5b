#include "apps/tokenize/tokenize.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/dataset/token_shard.hpp>

#include "apps/tokenize/id_file.hpp"

namespace matrixfsdp::tokenize {
namespace {

using Take = std::function<void(std::span<const std::int32_t> tokens)>;

/// Passes all tokens on, in their order. May be called again.
using Source = std::function<void(const Take& take)>;

Source bytes_of(const Command& command) {
  const auto data = std::make_shared<io::TokenData>(command.files);
  if (!data->is_text()) {
    throw InputError(fmt::format("file '{}': is a token shard by its name; expected text (or ids, with --ids)",
                                 command.files.front()));
  }
  return [data](const Take& take) {
    constexpr std::int64_t block = 64 * 1024;
    std::vector<std::int32_t> tokens;
    for (std::int64_t begin = 0; begin < data->size(); begin += block) {
      tokens.resize(static_cast<std::size_t>(std::min(block, data->size() - begin)));
      data->read(begin, tokens);
      take(tokens);
    }
  };
}

Source ids_of(const Command& command) {
  return [command](const Take& take) {
    for (const std::string& path : command.files)
      read_ids(path, io::largest_token(command.format), take);
  };
}

/// "book_val.bin" of "book.bin".
std::string validation_name(const std::string& output) {
  return output.substr(0, output.rfind('.')) + "_val.bin";
}

std::string line_of(const std::string& path, std::int64_t tokens, io::TokenFormat format) {
  return fmt::format("{}: {} tokens, {}\n", path, tokens, io::name_of(format));
}

}  // namespace

std::string tokenize(const Command& command) {
  const Source source = command.ids ? ids_of(command) : bytes_of(command);
  std::int64_t size = 0;
  source([&size](std::span<const std::int32_t> tokens) { size += static_cast<std::int64_t>(tokens.size()); });
  // As mfsdp-train holds out: the shards train what --val-fraction does.
  const auto held = static_cast<std::int64_t>(command.validation * static_cast<double>(size));
  const std::int64_t cut = size - held;
  if (size == 0) throw InputError(fmt::format("file '{}': holds no tokens; expected some", command.files.front()));
  if (command.validation > 0 && (held == 0 || cut == 0)) {
    throw InputError(
        fmt::format("--validation {}: {} tokens cannot be cut so that both files have some", command.validation, size));
  }
  io::TokenShardWriter training(command.output, command.format);
  std::optional<io::TokenShardWriter> validation;
  if (held > 0) validation.emplace(validation_name(command.output), command.format);
  std::int64_t done = 0;
  source([&](std::span<const std::int32_t> tokens) {
    const auto here =
        static_cast<std::size_t>(std::clamp<std::int64_t>(cut - done, 0, static_cast<std::int64_t>(tokens.size())));
    training.write(tokens.first(here));
    if (validation) validation->write(tokens.subspan(here));
    done += static_cast<std::int64_t>(tokens.size());
  });
  if (done != size) {
    throw InputError(
        fmt::format("file '{}': {} tokens where there were {} before; expected files that stay as they are",
                    command.files.front(), done, size));
  }
  if (validation) validation->publish();
  training.publish();
  std::string text = line_of(command.output, training.size(), command.format);
  if (validation) text += line_of(validation_name(command.output), validation->size(), command.format);
  return text;
}

}  // namespace matrixfsdp::tokenize

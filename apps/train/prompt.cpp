#include "apps/train/prompt.hpp"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {
namespace {

constexpr std::string_view between = " ,\t\n";

std::vector<std::int32_t> ids_of(const std::string& prompt) {
  std::vector<std::int32_t> tokens;
  std::string_view left = prompt;
  for (std::size_t at = 0; (at = left.find_first_not_of(between)) != std::string_view::npos;) {
    left.remove_prefix(at);
    const std::string_view word = left.substr(0, left.find_first_of(between));
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), token);
    if (error != std::errc() || end != word.data() + word.size() || token < 0) {
      throw InputError(
          fmt::format("--prompt '{}': '{}': expected token ids, because the tokens are those of shards, not bytes of "
                      "text",
                      prompt, word));
    }
    tokens.push_back(token);
    left.remove_prefix(word.size());
  }
  return tokens;
}

}  // namespace

std::vector<std::int32_t> prompt_tokens(const std::string& prompt, bool is_text, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  if (is_text) {
    for (const char c : prompt)
      tokens.push_back(static_cast<unsigned char>(c));
  } else {
    tokens = ids_of(prompt);
  }
  if (tokens.empty())
    throw InputError(fmt::format("--prompt '{}': expected {} to continue", prompt, is_text ? "text" : "token ids"));
  for (const std::int32_t token : tokens) {
    if (token >= vocabulary) {
      throw InputError(fmt::format("--prompt '{}': token {}: expected less than the model's vocabulary of {}", prompt,
                                   token, vocabulary));
    }
  }
  return tokens;
}

std::string text_of(const std::vector<std::int32_t>& tokens, bool is_text) {
  std::string text;
  for (const std::int32_t token : tokens) {
    if (is_text && token < 256) {
      text += static_cast<char>(token);
    } else {
      text += fmt::format("{} ", token);
    }
  }
  return text;
}

}  // namespace matrixfsdp::train

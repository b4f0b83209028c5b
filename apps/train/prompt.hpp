#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace matrixfsdp::train {

/// Tokens of a prompt: its bytes where tokens are text, else the ids that it lists, decimal, with blanks or commas
/// between them. Throws InputError for an empty prompt, anything but ids, and a token beyond the vocabulary.
std::vector<std::int32_t> prompt_tokens(const std::string& prompt, bool is_text, std::int64_t vocabulary);

/// The other way: bytes of text, or ids with a blank after each. Of text, a token that is no byte is its id.
std::string text_of(const std::vector<std::int32_t>& tokens, bool is_text);

}  // namespace matrixfsdp::train

#pragma once

#include <span>
#include <string>

#include <matrixfsdp/schema/checksum.hpp>

namespace matrixfsdp::testing {

/// A manifest's text with the checksum that fits the rest of it, where it has a place for one.
inline std::string with_checksum(std::string text) {
  const std::string field = "\"manifest_checksum\": \"";
  const std::size_t at = text.find(field);
  if (at == std::string::npos || at + field.size() + 16 > text.size()) return text;
  text.replace(at + field.size(), 16, 16, '0');
  return text.replace(at + field.size(), 16, io::checksum_text(io::checksum_of(std::as_bytes(std::span(text)))));
}

}  // namespace matrixfsdp::testing

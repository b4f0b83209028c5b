#pragma once

#include <string>
#include <string_view>

namespace matrixfsdp::apps {

/// `text` as XML and HTML write it, in an element or in a quoted attribute.
inline std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        // XML has no way to write most control characters.
        result += static_cast<unsigned char>(c) < 32 ? '?' : c;
    }
  }
  return result;
}

}  // namespace matrixfsdp::apps

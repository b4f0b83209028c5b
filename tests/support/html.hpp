#pragma once

#include <cstddef>
#include <string>
#include <vector>

/// Looks at pages that programs write.
namespace matrixfsdp::testing {

/// Tags of `text` close in the order in which they open, attributes are quoted, and nothing else is `<`: the first tag
/// that is wrong, or nothing.
inline std::string first_bad_tag(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = text.find("<html");
  while ((at = text.find('<', at)) != std::string::npos) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return text.substr(at, 40);
    const std::string tag = text.substr(at + 1, end - at - 1);
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    at = end;
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != tag) return tag;
      open.pop_back();
    } else if (tag.back() != '/' && name != "meta") {
      if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz123") != std::string::npos) return tag;
      open.push_back(name);
    }
  }
  return open.empty() ? "" : open.back();
}

/// How often `part` occurs.
inline int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

/// What would be fetched, or run, when the page is opened; nothing in a page that stands alone.
inline std::string first_foreign(const std::string& page) {
  for (const char* foreign : {"http:", "https:", "src=", "<script", "@import", "url(", "<link", "javascript"}) {
    if (page.find(foreign) != std::string::npos) return foreign;
  }
  return "";
}

}  // namespace matrixfsdp::testing

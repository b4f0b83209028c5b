#pragma once

#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "apps/escaped.hpp"

namespace matrixfsdp::page {

/// Elements of SVG with colors of their own, one after another.
class Drawing {
 public:
  void text(double x, double y, std::string_view anchor, std::string_view text, int size = 11) {
    fmt::format_to(out_, "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\">{}</text>\n", x, y,
                   anchor, size, apps::escaped(text));
  }
  void box(double x, double y, double width, double height, std::string_view color, double opacity,
           std::string_view title) {
    fmt::format_to(out_,
                   "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" fill=\"{}\" "
                   "fill-opacity=\"{:.3f}\"><title>{}</title></rect>\n",
                   x, y, width, height, color, opacity, apps::escaped(title));
  }
  void add(std::string_view elements) { body_ += elements; }
  [[nodiscard]] const std::string& body() const { return body_; }

 private:
  std::string body_;
  std::back_insert_iterator<std::string> out_{body_};
};

}  // namespace matrixfsdp::page

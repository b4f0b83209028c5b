#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Pieces of a page that stands alone: nothing in it is fetched, nothing runs, and its colors follow the reader's light
/// or dark.
namespace matrixfsdp::page {

/// <p> of the text.
std::string paragraph(const std::string& text);

/// A head of `columns`, and a line for each row of as many cells.
std::string to_table(const std::vector<std::string>& columns, const std::vector<std::vector<std::string>>& rows);

/// What is folded up until a reader asks for it; `body` is HTML.
std::string details(const std::string& summary, const std::string& body);

/// <text> of inline SVG; `anchor` is start, middle or end.
std::string svg_text(double x, double y, std::string_view anchor, const std::string& text);

/// <rect> of inline SVG, in the color of a class.
std::string svg_box(double x, double y, double width, double height, std::string_view color);

/// The whole page around `body`, which is HTML. `style`: CSS beside that of every page, which has the variables
/// --paper, --ink, --faint and --rule; the colors of its own belong there, for light and for dark.
std::string to_page(const std::string& title, std::string_view style, const std::string& body);

}  // namespace matrixfsdp::page

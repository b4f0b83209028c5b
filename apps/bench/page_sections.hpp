#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "apps/bench/page_html.hpp"

namespace matrixfsdp::bench {

/// What a page says of the rows of one benchmark.
struct Section {
  std::string title;
  std::string words;                 ///< what is compared with what, in plain words
  std::vector<std::string> columns;  ///< of the table
  std::vector<Chart> charts;
};

/// `report`: {"benchmark","environment","rows"}, its rows objects, at least one. A benchmark that has no published
/// figures beside it gets a table of all that its rows have. Throws nlohmann's exceptions for figures of another type.
Section section_of(const nlohmann::json& report);

}  // namespace matrixfsdp::bench

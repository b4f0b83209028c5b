#include "apps/report/report_page.hpp"

#include <fmt/format.h>

#include "apps/page/legend.hpp"
#include "apps/page/page.hpp"

namespace matrixfsdp::report {

std::string report_page(const Runs& runs) {
  std::string body = overview(runs);
  for (const auto part : {&training_charts, &step_charts, &memory_charts, &owner_maps, &health, &configurations})
    body += part(runs);
  const std::string title =
      runs.size() == 1 ? fmt::format("Run {}", runs.front().name) : fmt::format("{} runs", runs.size());
  return page::to_page(title, page::color_style(), body);
}

}  // namespace matrixfsdp::report

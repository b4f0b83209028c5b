#include "apps/page/legend.hpp"

#include <fmt/format.h>

#include "apps/escaped.hpp"

namespace matrixfsdp::page {

std::string_view color_style() {
  return R"(:root { --c0: #0b66a8; --c1: #c8500a; --c2: #0a7d57; --c3: #a8487f; --c4: #9a7400; --c5: #4f9fd6; --c6: #6b4fa0;
  --c7: #6e6e6e; }
@media (prefers-color-scheme: dark) { :root { --c0: #5aa9e6; --c1: #f08a4b; --c2: #3cc495; --c3: #e08fbb; --c4: #d9b845;
  --c5: #2f77ad; --c6: #a58fd8; --c7: #a5a5a5; } }
.color-0 { fill: var(--c0); } .color-1 { fill: var(--c1); } .color-2 { fill: var(--c2); } .color-3 { fill: var(--c3); }
.color-4 { fill: var(--c4); } .color-5 { fill: var(--c5); } .color-6 { fill: var(--c6); } .color-7 { fill: var(--c7); }
.line-0 { stroke: var(--c0); } .line-1 { stroke: var(--c1); } .line-2 { stroke: var(--c2); } .line-3 { stroke: var(--c3); }
.line-4 { stroke: var(--c4); } .line-5 { stroke: var(--c5); } .line-6 { stroke: var(--c6); } .line-7 { stroke: var(--c7); }
.line { fill: none; stroke-width: 1.6; stroke-linejoin: round; } .dashed { stroke-dasharray: 5 3; }
.grid { stroke: var(--rule); stroke-width: 1; fill: none; }
svg text.faint { fill: var(--faint); }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(27rem, 100%), 1fr)); gap: 1rem 2rem; }
figure { margin: 0; min-width: 0; } figcaption { font-weight: 600; margin-bottom: 2px; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.2rem; font-size: 13px; }
.legend svg { margin-right: 5px; vertical-align: middle; }
)";
}

std::string to_legend(const std::vector<LegendEntry>& entries) {
  std::string result = "<div class=\"legend\">\n";
  for (const LegendEntry& entry : entries) {
    const std::string mark =
        entry.stroke ? fmt::format("<line x1=\"0\" y1=\"5\" x2=\"22\" y2=\"5\" class=\"line line-{}{}\"/>",
                                   entry.color % colors, entry.dashed ? " dashed" : "")
                     : fmt::format("<rect width=\"10\" height=\"10\" class=\"color-{}\"/>", entry.color % colors);
    result += fmt::format("<span><svg width=\"{}\" height=\"10\" aria-hidden=\"true\">{}</svg>{}</span>\n",
                          entry.stroke ? 22 : 10, mark, apps::escaped(entry.name));
  }
  return result + "</div>\n";
}

}  // namespace matrixfsdp::page

#include "apps/ckpt/report.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace matrixfsdp::ckpt {

void print_json(const Json& value) {
  fmt::print("{}\n", value.dump(2, ' ', false, Json::error_handler_t::replace));
}

Json state_json(const io::TrainingState& state) {
  return {{"step", state.step},
          {"optimizer_steps", state.optimizer_steps},
          {"loss", state.loss ? Json(*state.loss) : Json()},
          {"seed", state.seed},
          {"data_step", state.data_step},
          {"sum_group", state.sum_group},
          {"schedule", Json::parse(state.schedule)},
          {"configuration", Json::parse(state.configuration)}};
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  const std::size_t columns = rows.front().size();
  std::vector<std::size_t> widths(columns, 0);
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < columns; ++c)
      widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const bool left = c == 0 || rows.front()[c].ends_with(' ');
      if (c > 0) line += "  ";
      line += left ? fmt::format("{:<{}}", row[c], widths[c]) : fmt::format("{:>{}}", row[c], widths[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace matrixfsdp::ckpt

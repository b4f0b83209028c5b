#include <cstdio>

#include <fmt/format.h>

#include <matrixfsdp/core/log.hpp>

namespace matrixfsdp {

void log_line(std::string_view message) {
  // One write per line, so that lines of several ranks do not mix.
  const std::string line = fmt::format("matrixfsdp: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace matrixfsdp

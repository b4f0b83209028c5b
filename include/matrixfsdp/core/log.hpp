#pragma once

#include <string_view>

namespace matrixfsdp {

/// Writes one line to standard error: "matrixfsdp: <message>". Data goes to standard output, everything else here.
/// Callers decide which rank speaks (rank 0, unless the message is about one rank).
void log_line(std::string_view message);

}  // namespace matrixfsdp

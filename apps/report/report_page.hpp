#pragma once

#include <string>

#include "apps/report/sections.hpp"

namespace matrixfsdp::report {

/// The whole page: HTML that fetches nothing and needs no script.
std::string report_page(const Runs& runs);

}  // namespace matrixfsdp::report

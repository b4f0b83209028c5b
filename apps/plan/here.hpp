#pragma once

#include <matrixfsdp/plan/machine.hpp>

namespace matrixfsdp::apps {

/// This machine as one node of `ranks` ranks with one thread each, measured in about a second: its products, alone on
/// the machine, shared where there are more ranks than cores; its memory, an equal part for each rank. A link is a copy
/// in memory.
Machine measure_here(int ranks);

}  // namespace matrixfsdp::apps

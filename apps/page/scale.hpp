#pragma once

#include <string>
#include <vector>

namespace matrixfsdp::page {

/// Round values (1, 2 or 5 times a power of ten apart) in [low, high], about `wanted` of them; `low` alone where they
/// are equal or not finite.
std::vector<double> ticks(double low, double high, int wanted);

/// Four digits at most, with k, M, G, T, P for thousands: "1.25k", "0.0002", "-3".
std::string short_number(double value);

}  // namespace matrixfsdp::page

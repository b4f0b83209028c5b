#pragma once

#include <string>
#include <vector>

/// Which rank computes on which device (CASES 67): told apart by names that are the same for ranks that share one.
namespace matrixfsdp {

/// Index of the device that a rank takes of the `devices` > 0 that its node shows it: the next rank takes the next one.
int device_of(int local_rank, int devices);

/// Number of different devices in a list by rank; "" is none.
int count_devices(const std::vector<std::string>& device_of_rank);

/// One line that names each device that several ranks have, and them; empty where there is none.
std::string shared_devices(const std::vector<std::string>& device_of_rank);

}  // namespace matrixfsdp

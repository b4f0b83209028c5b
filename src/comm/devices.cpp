#include "comm/devices.hpp"

#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace matrixfsdp {
namespace {

std::map<std::string, std::vector<std::size_t>> ranks_by_device(const std::vector<std::string>& device_of_rank) {
  std::map<std::string, std::vector<std::size_t>> ranks;
  for (std::size_t rank = 0; rank < device_of_rank.size(); ++rank) {
    if (!device_of_rank[rank].empty()) ranks[device_of_rank[rank]].push_back(rank);
  }
  return ranks;
}

}  // namespace

int device_of(int local_rank, int devices) {
  return local_rank % devices;
}

int count_devices(const std::vector<std::string>& device_of_rank) {
  return static_cast<int>(ranks_by_device(device_of_rank).size());
}

std::string shared_devices(const std::vector<std::string>& device_of_rank) {
  std::string line;
  for (const auto& [device, ranks] : ranks_by_device(device_of_rank)) {
    if (ranks.size() == 1) continue;
    line += fmt::format("{}ranks {} share device {}", line.empty() ? "" : "; ", fmt::join(ranks, ", "), device);
  }
  return line.empty() ? line : line + ": expected one device per rank";
}

}  // namespace matrixfsdp

#include "apps/train/collective_profile.hpp"

#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include <matrixfsdp/comm/calibration.hpp>
#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/collective_profile.hpp>

#include "apps/train/first_rank.hpp"

namespace matrixfsdp::train {
namespace {

const OperationLabel label{"collective profile", "", ""};
constexpr const char* option = "--collective-profile";

int node_count(const Topology& topology) {
  return static_cast<int>(std::set<int>(topology.node.begin(), topology.node.end()).size());
}

/// The text of the file on rank 0, empty where there is no file.
std::string read(const std::string& path, const Topology& topology) {
  if (path.empty() || !std::filesystem::exists(path)) return {};
  const CollectiveProfile profile = io::read_collective_profile(path);
  const int nodes = node_count(topology);
  if (profile.world_size != topology.world_size() || profile.nodes != nodes) {
    throw InputError(fmt::format(
        "--collective-profile '{}': measured with {} ranks on {} nodes: expected {} ranks on {} nodes, as this job "
        "has; name another file to calibrate anew",
        path, profile.world_size, profile.nodes, topology.world_size(), nodes));
  }
  require_links(profile, topology);
  return io::to_text(profile);
}

std::string to_text(const LinkModel& link) {
  return fmt::format(
      "{:.0f} us a hop, {:.0f} us a message; MB/s: a rank {:.1f}, a node {:.1f}, each of all nodes {:.1f}, "
      "all to all {:.1f}",
      1e6 * link.alpha_seconds, 1e6 * link.message_seconds, 1e-6 / link.beta_seconds_per_byte,
      1e-6 / link.node_beta_seconds_per_byte, 1e-6 / link.all_beta_seconds_per_byte,
      1e-6 / link.all_beta_seconds_per_byte / link.contention);
}

/// "scatter (12 units), direct (1 unit)"
std::string counted(const std::vector<UnitCollectives>& units, CollectiveChoice UnitCollectives::*phase) {
  std::map<std::string_view, int> counts;
  for (const UnitCollectives& unit : units)
    ++counts[name_of((unit.*phase).algorithm)];
  std::string text;
  for (const auto& [name, count] : counts)
    text += fmt::format("{}{} ({} unit{})", text.empty() ? "" : ", ", name, count, count == 1 ? "" : "s");
  return text;
}

}  // namespace

CollectiveProfile collective_profile(Communicator& communicator, const Topology& topology, const std::string& path) {
  std::string text;
  on_first_rank(communicator, option, path, [&] { text = read(path, topology); });
  const auto bytes = communicator.broadcast(Purpose::other, std::as_bytes(std::span(text)), 0, label);
  if (!bytes.empty()) {
    const std::string_view known(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return io::parse_collective_profile(std::string(known), path);
  }
  const CollectiveProfile profile = calibrate(communicator, topology);
  require_equal(communicator, hash_of(profile), "collective profile (hash)");
  on_first_rank(communicator, option, path, [&] {
    if (!path.empty()) io::write_collective_profile(path, profile);
  });
  return profile;
}

std::string to_text(const CollectiveProfile& profile) {
  std::string text;
  if (profile.inside) text += fmt::format("inside nodes {}", to_text(*profile.inside));
  if (profile.between) text += fmt::format("{}between nodes {}", text.empty() ? "" : "; ", to_text(*profile.between));
  return text.empty() ? "one rank" : text;
}

std::vector<UnitAlgorithms> algorithms_of(const std::vector<UnitCollectives>& units) {
  std::vector<UnitAlgorithms> algorithms;
  algorithms.reserve(units.size());
  for (const UnitCollectives& unit : units)
    algorithms.push_back({unit.unshard.algorithm, unit.reduce.algorithm});
  return algorithms;
}

std::string to_text(const std::vector<UnitCollectives>& units) {
  return fmt::format("unshard {}; reduce {}", counted(units, &UnitCollectives::unshard),
                     counted(units, &UnitCollectives::reduce));
}

}  // namespace matrixfsdp::train

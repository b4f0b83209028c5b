#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/fingerprint.hpp"

namespace matrixfsdp {
namespace {

void require_figure(const char* link, const char* name, double value, bool positive) {
  if (std::isfinite(value) && (positive ? value > 0 : value >= 0)) return;
  throw InputError(fmt::format("collective profile: {}.{} {}: expected a finite number {}", link, name, value,
                               positive ? "above 0" : "of 0 or more"));
}

void validate(const char* name, const LinkModel& link) {
  require_figure(name, "alpha_seconds", link.alpha_seconds, false);
  require_figure(name, "message_seconds", link.message_seconds, false);
  require_figure(name, "beta_seconds_per_byte", link.beta_seconds_per_byte, false);
  require_figure(name, "node_beta_seconds_per_byte", link.node_beta_seconds_per_byte, false);
  require_figure(name, "all_beta_seconds_per_byte", link.all_beta_seconds_per_byte, false);
  require_figure(name, "contention", link.contention, true);
}

void add(detail::Fingerprint& fingerprint, const std::optional<LinkModel>& link) {
  fingerprint.add(std::int64_t{link ? 1 : 0});
  if (!link) return;
  for (const double figure : {link->alpha_seconds, link->message_seconds, link->beta_seconds_per_byte,
                              link->node_beta_seconds_per_byte, link->all_beta_seconds_per_byte, link->contention})
    fingerprint.add(figure);
}

void add(detail::Fingerprint& fingerprint, const CollectiveCorrection& correction) {
  fingerprint.add(static_cast<std::int64_t>(correction.operation));
  fingerprint.add(static_cast<std::int64_t>(correction.algorithm));
  fingerprint.add(std::int64_t{correction.one_owner ? 1 : 0});
  fingerprint.add(correction.bytes);
  fingerprint.add(correction.factor);
}

}  // namespace

void validate(const CollectiveProfile& profile) {
  if (profile.world_size < 1 || profile.nodes < 1 || profile.nodes > profile.world_size) {
    throw InputError(fmt::format("collective profile of {} ranks on {} nodes: expected at least one rank on each node",
                                 profile.world_size, profile.nodes));
  }
  if (profile.inside) validate("inside", *profile.inside);
  if (profile.between) validate("between", *profile.between);
  for (const CollectiveCorrection& correction : profile.corrections) {
    require_figure("corrections", "bytes", static_cast<double>(correction.bytes), true);
    require_figure("corrections", "factor", correction.factor, true);
  }
}

void require_links(const CollectiveProfile& profile, const Topology& topology) {
  std::vector<int> nodes = topology.node;
  std::sort(nodes.begin(), nodes.end());
  const bool inside = std::adjacent_find(nodes.begin(), nodes.end()) != nodes.end();
  const bool between = !nodes.empty() && nodes.front() != nodes.back();
  const auto missing = [&profile](const char* what) {
    return InputError(
        fmt::format("collective profile of {} ranks on {} nodes: it has no figures of links {}: expected one of "
                    "a job that has such links",
                    profile.world_size, profile.nodes, what));
  };
  if (inside && !profile.inside) throw missing("inside a node");
  if (between && !profile.between) throw missing("between nodes");
}

std::uint64_t hash_of(const CollectiveProfile& profile) {
  detail::Fingerprint fingerprint;
  fingerprint.add(std::int64_t{profile.world_size});
  fingerprint.add(std::int64_t{profile.nodes});
  add(fingerprint, profile.inside);
  add(fingerprint, profile.between);
  for (const CollectiveCorrection& correction : profile.corrections)
    add(fingerprint, correction);
  return fingerprint.value();
}

}  // namespace matrixfsdp

#include "plan/time/transfers.hpp"

#include <algorithm>

namespace matrixfsdp::detail {
namespace {

constexpr int fastest_unshard = -1;
constexpr int any_reduce = -2;

std::int64_t fullest(const SegmentTable& table) {
  std::int64_t most = 0;
  for (int rank = 0; rank < static_cast<int>(table.intervals.size()); ++rank)
    most = std::max(most, table.shard_size(rank));
  return most;
}

}  // namespace

Transfers::Transfers(const Machine& machine, const std::optional<CollectiveProfile>& links)
    : topology_(make_topology(static_cast<int>(machine.ranks()), machine.ranks_per_node)),
      profile_(collective_profile(machine)) {
  if (!links) return;
  if (links->inside) profile_.inside = links->inside;
  if (links->between) profile_.between = links->between;
  profile_.corrections = links->corrections;
}

/// The collectives' model counts in float32.
CollectiveProfile Transfers::scaled(double element_bytes) const {
  CollectiveProfile profile = profile_;
  for (std::optional<LinkModel>* link : {&profile.inside, &profile.between}) {
    for (double LinkModel::*beta : {&LinkModel::beta_seconds_per_byte, &LinkModel::node_beta_seconds_per_byte,
                                    &LinkModel::all_beta_seconds_per_byte})
      (**link).*beta *= element_bytes / static_cast<double>(sizeof(float));
  }
  return profile;
}

template <class Price>
double Transfers::once(const Key& key, const Price& price) {
  const auto& [operation, size, fullest_rank, element_bytes, passes] = key;
  if (topology_.world_size() == 1 || size == 0) return 0;
  const auto found = priced_.find(key);
  return found != priced_.end() ? found->second : priced_[key] = price(scaled(element_bytes));
}

double Transfers::unshard(const SegmentTable& table, double element_bytes,
                          std::optional<CollectiveAlgorithm> algorithm) {
  const int operation = algorithm ? static_cast<int>(*algorithm) : fastest_unshard;
  return once({operation, table.size, fullest(table), element_bytes, 1}, [&](const CollectiveProfile& profile) {
    return algorithm ? predicted_unshard_seconds(*algorithm, table, topology_, profile)
                     : choose_unshard(table, topology_, profile).seconds;
  });
}

double Transfers::reduce(const SegmentTable& table, double element_bytes, std::int64_t passes) {
  return once({any_reduce, table.size, fullest(table), element_bytes, passes}, [&](const CollectiveProfile& profile) {
    return choose_reduce(table, topology_, profile, {passes}).seconds / static_cast<double>(passes);
  });
}

double Transfers::exchange(double bytes) const {
  const double ranks = topology_.world_size();
  if (ranks == 1) return 0;
  const auto here =
      static_cast<double>(std::count(topology_.node.begin(), topology_.node.end(), topology_.node.front()));
  const double near = bytes * (here - 1) / (ranks - 1);
  const double far = bytes - near;
  const LinkModel& inside = *profile_.inside;
  const LinkModel& between = *profile_.between;
  const double alpha = far > 0 ? between.alpha_seconds : inside.alpha_seconds;
  // All ranks do the same at once.
  const double together = far * here * between.all_beta_seconds_per_byte * between.contention;
  return alpha + std::max({near * inside.beta_seconds_per_byte + far * between.beta_seconds_per_byte,
                           far * here * between.node_beta_seconds_per_byte, together});
}

}  // namespace matrixfsdp::detail

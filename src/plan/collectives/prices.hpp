#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/collective_model.hpp>

#include "plan/collectives/node_places.hpp"

namespace matrixfsdp::detail {

/// Prices of one table on one topology. Both outlive it.
class Prices {
 public:
  Prices(const SegmentTable& table_, const Topology& topology_, const CollectiveProfile& profile,
         std::int64_t message_elements)
      : table(table_),
        topology(topology_),
        places(topology_),
        inside_(profile.inside.value_or(LinkModel{})),
        between_(profile.between.value_or(LinkModel{})),
        message_(message_elements) {}

  const SegmentTable& table;
  const Topology& topology;
  const NodePlaces places;

  [[nodiscard]] int world_size() const { return topology.world_size(); }
  [[nodiscard]] const LinkModel& link(bool near) const { return near ? inside_ : between_; }
  [[nodiscard]] const LinkModel& link(int from, int to) const { return link(places.same(from, to)); }
  [[nodiscard]] double alpha(int from, int to) const { return link(from, to).alpha_seconds; }
  /// Of the slower class that the job has.
  [[nodiscard]] double alpha() const { return std::max(inside_.alpha_seconds, between_.alpha_seconds); }

  /// Elements of `size` in a message: they arrive together, and are passed on together.
  [[nodiscard]] std::int64_t tail_of(std::int64_t size) const { return std::min(size, message_); }
  [[nodiscard]] std::int64_t message() const { return message_; }
  /// `size` elements over hops that together take `all` for an element, the slowest of them `slowest`.
  [[nodiscard]] double pipelined(std::int64_t size, double all, double slowest) const {
    const std::int64_t tail = tail_of(size);
    return static_cast<double>(tail) * all + static_cast<double>(size - tail) * slowest;
  }

  /// One rank sends `elements` to each of so many others.
  /// Many contend for a link only as far as they fill its queues: `queued` of 1.
  [[nodiscard]] double fan_out(std::int64_t elements, std::int64_t inside, std::int64_t between,
                               double queued = 0) const {
    const auto price = [&](std::int64_t others, const LinkModel& link) {
      return seconds(elements * others, link, false, &LinkModel::beta_seconds_per_byte) *
             (1 + queued * std::max(0.0, link.contention - 1));
    };
    return price(inside, inside_) + price(between, between_);
  }
  /// A node sends to others.
  [[nodiscard]] double node_link(std::int64_t elements) const {
    return seconds(elements, between_, false, &LinkModel::node_beta_seconds_per_byte);
  }
  [[nodiscard]] double hop(std::int64_t elements, int from, int to) const {
    const bool near = places.same(from, to);
    return fan_out(elements, near ? 1 : 0, near ? 0 : 1);
  }

  /// The busiest rank's messages and bytes, the busiest node's bytes, and those of all together.
  [[nodiscard]] double drain(const std::vector<TransferCounts>& counts, bool to_many) const {
    std::vector<TransferCounts> nodes(places.ranks_on.size());
    TransferCounts all;
    double most = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      most = std::max(most, of_rank(counts[rank], to_many));
      add(counts[rank], nodes[static_cast<std::size_t>(places.node[rank])]);
      add(counts[rank], all);
    }
    const auto shared = [&](const TransferCounts& of, double LinkModel::*beta, double parts) {
      most = std::max({most, bytes_inside(of, to_many, beta) / parts, bytes_between(of, to_many, beta) / parts});
    };
    for (const TransferCounts& node : nodes)
      shared(node, &LinkModel::node_beta_seconds_per_byte, 1);
    shared(all, &LinkModel::all_beta_seconds_per_byte, static_cast<double>(nodes.size()));
    return most;
  }

 private:
  static void add(const TransferCounts& part, TransferCounts& sum) {
    sum.sent += part.sent;
    sum.received += part.received;
    sum.sent_between_nodes += part.sent_between_nodes;
    sum.received_between_nodes += part.received_between_nodes;
  }
  static double seconds(std::int64_t elements, const LinkModel& link, bool to_many, double LinkModel::*beta) {
    // Less than 1: all together are faster so, but no rank and no link is.
    const bool together = beta == &LinkModel::all_beta_seconds_per_byte;
    const double contention = together ? link.contention : std::max(1.0, link.contention);
    return static_cast<double>(elements) * sizeof(float) * (to_many ? contention : 1.0) * link.*beta;
  }
  [[nodiscard]] double bytes_inside(const TransferCounts& counts, bool to_many, double LinkModel::*beta) const {
    return seconds(std::max(counts.sent - counts.sent_between_nodes, counts.received - counts.received_between_nodes),
                   inside_, to_many, beta);
  }
  [[nodiscard]] double bytes_between(const TransferCounts& counts, bool to_many, double LinkModel::*beta) const {
    return seconds(std::max(counts.sent_between_nodes, counts.received_between_nodes), between_, to_many, beta);
  }
  /// A rank serves its links one after the other.
  [[nodiscard]] double of_rank(const TransferCounts& counts, bool to_many) const {
    const auto messages_between = static_cast<double>(counts.messages_between_nodes);
    const double messages = (static_cast<double>(counts.messages) - messages_between) * inside_.message_seconds +
                            messages_between * between_.message_seconds;
    return bytes_inside(counts, to_many, &LinkModel::beta_seconds_per_byte) +
           bytes_between(counts, to_many, &LinkModel::beta_seconds_per_byte) + messages;
  }

  LinkModel inside_;
  LinkModel between_;
  std::int64_t message_;
};

}  // namespace matrixfsdp::detail

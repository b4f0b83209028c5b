#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/plan/collective.hpp>

#include "plan/collectives/node_places.hpp"

namespace matrixfsdp::detail {

/// Elements, and the messages that they are cut into.
struct Load {
  std::int64_t elements = 0;
  std::int64_t messages = 0;

  Load& operator+=(const Load& other) {
    elements += other.elements;
    messages += other.messages;
    return *this;
  }
  Load operator-(const Load& other) const { return {elements - other.elements, messages - other.messages}; }
  Load operator*(std::int64_t times) const { return {elements * times, messages * times}; }
};

inline Load load_of(std::int64_t elements, std::int64_t block) {
  return {elements, (elements + block - 1) / block};
}

/// Adds up what ranks send and receive.
class Counter {
 public:
  Counter(std::size_t ranks, const NodePlaces& places) : counts(ranks), places_(places) {}

  std::vector<TransferCounts> counts;  ///< by rank

  void send(int from, const Load& load, std::int64_t times_inside, std::int64_t times_between) {
    TransferCounts& of = counts[static_cast<std::size_t>(from)];
    of.sent += load.elements * (times_inside + times_between);
    of.messages += load.messages * (times_inside + times_between);
    of.sent_between_nodes += load.elements * times_between;
    of.messages_between_nodes += load.messages * times_between;
  }
  void receive(int to, std::int64_t elements, std::int64_t of_them_between_nodes) {
    TransferCounts& of = counts[static_cast<std::size_t>(to)];
    of.received += elements;
    of.received_between_nodes += of_them_between_nodes;
  }
  void pass(int from, int to, const Load& load) {
    const bool near = places_.same(from, to);
    send(from, load, near ? 1 : 0, near ? 0 : 1);
    receive(to, load.elements, near ? 0 : load.elements);
  }

 private:
  const NodePlaces& places_;
};

}  // namespace matrixfsdp::detail

#include <cstddef>
#include <utility>

#include "comm/nccl/backend.hpp"
#include "comm/nccl/operation.hpp"

namespace matrixfsdp::nccl {
namespace {

using Segment = Engine::Segment;

/// Of all ranks, in rank order. Empty ones are nowhere, on any rank (CASES 44).
std::vector<Segment> segments_of(const SegmentTable& table, int rank, const float* shard, float* buffer) {
  std::vector<Segment> segments;
  std::int64_t done = 0;
  for (std::size_t owner = 0; owner < table.intervals.size(); ++owner) {
    const bool mine = static_cast<int>(owner) == rank;
    for (const Interval& interval : table.intervals[owner]) {
      if (interval.empty()) continue;
      float* receive = buffer + interval.begin;
      segments.push_back({static_cast<int>(owner), mine ? shard + done : receive, receive, interval.size()});
      if (mine) done += interval.size();
    }
  }
  return segments;
}

void add_broadcasts(Engine& engine, Operation& operation, const std::vector<Segment>& segments, Purpose purpose,
                    int most_operations) {
  const auto most = static_cast<std::ptrdiff_t>(most_operations);
  for (auto begin = segments.begin(); begin != segments.end();) {
    const auto end = segments.end() - begin > most ? begin + most : segments.end();
    operation.add(
        [&engine, purpose, part = std::vector<Segment>(begin, end)] { engine.run_broadcasts(part, purpose); });
    begin = end;
  }
}

void add_sends(Engine& engine, Operation& operation, const std::vector<Segment>& segments, Purpose purpose,
               int most_operations) {
  const int rank = engine.channel()->rank;
  const auto size = static_cast<std::size_t>(engine.channel()->size);
  MessagesByPeer to(size);
  MessagesByPeer from(size);
  for (const Segment& segment : segments) {
    if (segment.owner != rank) {
      from[static_cast<std::size_t>(segment.owner)].push_back({segment.receive, segment.elements});
      continue;
    }
    for (std::size_t peer = 0; peer < size; ++peer) {
      if (static_cast<int>(peer) != rank) to[peer].push_back({const_cast<float*>(segment.send), segment.elements});
    }
    // A single rank may pass its buffer as its shard.
    if (segment.send != segment.receive)
      operation.add([&engine, segment] { engine.copy(segment.send, segment.receive, segment.elements); });
  }
  operation.add_groups(make_groups(rank, to, from, most_operations), purpose);
}

}  // namespace

Request Backend::gather(Purpose purpose, const Unshard& unshard, const float* shard, float* buffer,
                        const OperationLabel& label) {
  const auto segments = segments_of(unshard.table, engine_->channel()->rank, shard, buffer);
  const bool broadcast = options_.gather == GatherBy::broadcast ||
                         (options_.gather == GatherBy::automatic && broadcast_wins(unshard.table));
  const auto add = broadcast ? add_broadcasts : add_sends;
  return start(label,
               [&](Operation& operation) { add(*engine_, operation, segments, purpose, options_.group_operations); });
}

}  // namespace matrixfsdp::nccl

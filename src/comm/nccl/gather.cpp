#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include <matrixfsdp/tensor/wire.hpp>

#include "comm/nccl/backend.hpp"
#include "comm/nccl/operation.hpp"
#include "comm/own_segments.hpp"

namespace matrixfsdp::nccl {
namespace {

using Segment = Engine::Segment;

/// Of all ranks of the table, in their order. Empty ones are nowhere, on any rank (CASES 44). Words travel from the
/// buffer, where own ones have been rounded to.
std::vector<Segment> segments_of(const Unshard& unshard, int rank, const float* shard, float* buffer) {
  const bool words = unshard.wire == DType::bfloat16;
  const auto element_bytes = static_cast<std::int64_t>(size_of(unshard.wire));
  const TensorView<float> whole(buffer, static_cast<std::size_t>(unshard.table.size));
  auto* begin = words ? reinterpret_cast<std::byte*>(upper_words(whole).data()) : reinterpret_cast<std::byte*>(buffer);
  std::vector<Segment> segments;
  std::int64_t done = 0;
  int owner = unshard.first_rank;
  for (const auto& intervals : unshard.table.intervals) {
    for (const Interval& interval : intervals) {
      if (interval.empty()) continue;
      void* receive = begin + element_bytes * interval.begin;
      const void* send = owner == rank && !words ? static_cast<const void*>(shard + done) : receive;
      segments.push_back({owner, send, receive, interval.size(), unshard.wire});
      if (owner == rank) done += interval.size();
    }
    ++owner;
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

/// Among the `ranks` ranks from `first` on.
void add_sends(Engine& engine, Operation& operation, const std::vector<Segment>& segments, Purpose purpose,
               int most_operations, int first, int ranks) {
  const int rank = engine.channel()->rank;
  const auto size = static_cast<std::size_t>(engine.channel()->size);
  MessagesByPeer to(size);
  MessagesByPeer from(size);
  for (const Segment& segment : segments) {
    if (segment.owner != rank) {
      from[static_cast<std::size_t>(segment.owner)].push_back({segment.receive, segment.elements, segment.type});
      continue;
    }
    const Message message{const_cast<void*>(segment.send), segment.elements, segment.type};
    for (int peer = first; peer < first + ranks; ++peer) {
      if (peer != rank) to[static_cast<std::size_t>(peer)].push_back(message);
    }
    // A single rank may pass its buffer as its shard.
    if (segment.send != segment.receive) {
      operation.add([&engine, segment] {
        engine.copy(segment.send, segment.receive, static_cast<std::int64_t>(size_of(segment.type)) * segment.elements);
      });
    }
  }
  operation.add_groups(make_groups(rank, to, from, most_operations), purpose);
}

/// Own segments become words in the buffer.
void add_rounding(Operation& operation, const std::array<Interval, 2>& mine, const float* shard,
                  const TensorView<float>& buffer) {
  const TensorView<const float> own(shard, static_cast<std::size_t>(mine[0].size() + mine[1].size()));
  place_own(mine, own, upper_words(buffer),
            [&operation](const TensorView<const float>& from, const TensorView<bfloat16>& to) {
              operation.add_kernel([from, to](const ExecutionSpace& space) { start_round_to_words(space, from, to); });
            });
}

}  // namespace

Request Backend::gather(Purpose purpose, const Unshard& unshard, const float* shard, float* buffer,
                        const OperationLabel& label) {
  const int rank = engine_->channel()->rank;
  const int ranks = static_cast<int>(unshard.table.intervals.size());
  const bool words = unshard.wire == DType::bfloat16;
  const TensorView<float> whole(buffer, static_cast<std::size_t>(unshard.table.size));
  // A broadcast is of all ranks of the communicator.
  const bool broadcast = ranks == engine_->channel()->size &&
                         (options_.gather == GatherBy::broadcast ||
                          (options_.gather == GatherBy::automatic && broadcast_wins(unshard.table, unshard.wire)));
  return start(label, [&](Operation& operation) {
    const auto segments = segments_of(unshard, rank, shard, buffer);
    const auto& mine = unshard.table.intervals[static_cast<std::size_t>(rank - unshard.first_rank)];
    if (words) add_rounding(operation, mine, shard, whole);
    if (broadcast)
      add_broadcasts(*engine_, operation, segments, purpose, options_.group_operations);
    else
      add_sends(*engine_, operation, segments, purpose, options_.group_operations, unshard.first_rank, ranks);
    if (words) operation.add_kernel([whole](const ExecutionSpace& space) { start_widen(space, whole); });
  });
}

}  // namespace matrixfsdp::nccl

#include "plan/collectives/reduce_runs.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "plan/collectives/shares.hpp"

namespace matrixfsdp {
namespace {

/// Of the even cut into `parts`: the one with `element`.
int chunk_with(std::int64_t element, std::int64_t size, int parts) {
  int part = static_cast<int>(static_cast<double>(element) / static_cast<double>(size) * parts);
  part = std::clamp(part, 0, parts - 1);
  while (element < fold_chunk(size, part, parts).begin)
    --part;
  while (element >= fold_chunk(size, part, parts).end)
    ++part;
  return part;
}

/// Segments in buffer order.
std::vector<Piece> segments_of(const SegmentTable& table) {
  std::vector<Piece> segments;
  for (std::size_t rank = 0; rank < table.intervals.size(); ++rank) {
    for (const Interval& interval : table.intervals[rank]) {
      if (!interval.empty()) segments.push_back({interval, static_cast<int>(rank), 0});
    }
  }
  std::sort(segments.begin(), segments.end(),
            [](const Piece& a, const Piece& b) { return a.elements.begin < b.elements.begin; });
  return segments;
}

/// Messages in buffer order: they cross neither segments nor `cuts`.
std::vector<Piece> cut(const SegmentTable& table, std::int64_t block, const std::set<std::int64_t>& cuts) {
  std::vector<Piece> pieces;
  for (const Piece& segment : segments_of(table)) {
    for (std::int64_t at = segment.elements.begin; at < segment.elements.end;) {
      std::int64_t end = std::min(at + block, segment.elements.end);
      const auto next = cuts.upper_bound(at);
      if (next != cuts.end()) end = std::min(end, *next);
      pieces.push_back({{at, end}, segment.owner, 0});
      at = end;
    }
  }
  return pieces;
}

}  // namespace

std::size_t Reduce::run_of(int rank) const {
  const auto after =
      std::upper_bound(runs.begin(), runs.end(), rank, [](int one, const RankGroup& run) { return one < run.first; });
  return static_cast<std::size_t>(after - runs.begin()) - 1;
}

bool Reduce::completes(std::size_t run, std::int64_t pass) const {
  const std::int64_t begin = pass * world_size() + runs[run].first;
  return (begin + runs[run].size) / sum_group > begin / sum_group;
}

int Reduce::completing_before(std::size_t run, std::int64_t pass) const {
  auto found = static_cast<int>(run) - 1;
  while (found >= 0 && !completes(static_cast<std::size_t>(found), pass))
    --found;
  return found;
}

int Reduce::completing_from(std::size_t run, std::int64_t pass) const {
  while (run < runs.size() && !completes(run, pass))
    ++run;
  return run < runs.size() ? static_cast<int>(run) : -1;
}

int Reduce::holder_in(const RankGroup& run, const Piece& block) const {
  return run.first + (returns_sums() ? chunk_with(block.elements.begin, table.size, run.size) : block.holder);
}

std::vector<RankGroup> detail::runs_of(CollectiveAlgorithm algorithm, const Topology& topology, int members) {
  const int ranks = topology.world_size();
  const auto begins = [&](int rank) {
    switch (algorithm) {
      case CollectiveAlgorithm::chain:
        return true;
      case CollectiveAlgorithm::hierarchical:
        return rank == 0 || !topology.same_node(rank - 1, rank);
      case CollectiveAlgorithm::tree:
        return rank == 0;
      default:
        return rank % members == 0;
    }
  };
  std::vector<RankGroup> runs;
  for (int rank = 0; rank < ranks; ++rank) {
    if (begins(rank)) runs.push_back({rank, 0});
    ++runs.back().size;
  }
  return runs;
}

void detail::share_evenly(Reduce& reduce) {
  std::map<int, int> first_list;  // by size of a run
  std::set<std::int64_t> cuts;
  for (const RankGroup& run : reduce.runs) {
    first_list.emplace(run.size, 0);
    for (int place = 0; place < run.size && run.size > 1; ++place)
      cuts.insert(fold_chunk(reduce.table.size, place, run.size).begin);
  }
  const std::vector<Piece> pieces = cut(reduce.table, reduce.message, cuts);
  for (auto& [size, first] : first_list) {
    first = static_cast<int>(reduce.blocks.size());
    reduce.blocks.resize(reduce.blocks.size() + static_cast<std::size_t>(size));
    for (Piece piece : pieces) {
      piece.holder = chunk_with(piece.elements.begin, reduce.table.size, size);
      reduce.blocks[static_cast<std::size_t>(first + piece.holder)].push_back(piece);
    }
  }
  for (const RankGroup& run : reduce.runs) {
    for (int place = 0; place < run.size; ++place)
      reduce.list_of.push_back(first_list[run.size] + place);
  }
}

void detail::give_all_to_root(Reduce& reduce) {
  const std::vector<std::int64_t> owned = shard_sizes(reduce.table);
  reduce.root = static_cast<int>(std::max_element(owned.begin(), owned.end()) - owned.begin());
  reduce.blocks.push_back(cut(reduce.table, reduce.message, {}));
  for (Piece& piece : reduce.blocks.front())
    piece.holder = reduce.root;
  reduce.blocks.emplace_back();
  reduce.list_of.assign(static_cast<std::size_t>(reduce.world_size()), 1);
  reduce.list_of[static_cast<std::size_t>(reduce.root)] = 0;
}

TreePosition tree_position(int position, int world_size) {
  TreePosition place;
  place.position = position;
  if (position > 0) place.parent = position & (position - 1);
  for (int bit = 1; position + bit < world_size && (position & bit) == 0; bit *= 2)
    place.children.push_back(position + bit);
  const int lowest = position & -position;
  place.size = position == 0 ? world_size : std::min(lowest, world_size - position);
  return place;
}

}  // namespace matrixfsdp

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <matrixfsdp/comm/segments.hpp>

/// Segment tables as plans make them: an owner region in rank order, then a tail region, and odd ones.
namespace matrixfsdp::testing {

struct NamedTable {
  std::string name;
  SegmentTable table;
};

/// `owned[r]` elements of rank r, then a tail of `tail` elements cut evenly, or all on `tail_owner` (>= 0).
inline SegmentTable owner_table(const std::vector<std::int64_t>& owned, std::int64_t tail, int tail_owner = -1) {
  const int world_size = static_cast<int>(owned.size());
  SegmentTable table;
  table.intervals.resize(owned.size());
  std::int64_t position = 0;
  for (std::size_t rank = 0; rank < owned.size(); ++rank) {
    table.intervals[rank][0] = {position, position + owned[rank]};
    position += owned[rank];
  }
  table.size = position + tail;
  for (int rank = 0; rank < world_size; ++rank) {
    Interval part{position + tail * rank / world_size, position + tail * (rank + 1) / world_size};
    if (tail_owner >= 0) part = rank == tail_owner ? Interval{position, table.size} : Interval{0, 0};
    table.intervals[static_cast<std::size_t>(rank)][1] = part;
  }
  return table;
}

/// `matrices` matrices of different sizes, dealt out in turn (CASES 45).
inline SegmentTable dealt_table(int world_size, int matrices, std::int64_t tail) {
  std::vector<std::int64_t> owned(static_cast<std::size_t>(world_size), 0);
  for (int i = 0; i < matrices; ++i)
    owned[static_cast<std::size_t>(i % world_size)] += 18 * (7 + 31 * (i % 5));
  return owner_table(owned, tail);
}

inline std::vector<NamedTable> all_tables(int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::vector<std::int64_t> none(ranks, 0);
  std::vector<NamedTable> tables{
      {"nothing", owner_table(none, 0)},
      {"one element", even_table(1, world_size)},
      {"even", even_table(1000, world_size)},
      {"one less than a multiple of W", even_table(100 * world_size - 1, world_size)},
      {"fewer elements than ranks", owner_table(none, world_size - 1)},
      {"only a tail", owner_table(none, 77)},
      {"tail on the last rank", owner_table(std::vector<std::int64_t>(ranks, 5), 13, world_size - 1)},
  };
  for (const int matrices : {1, 4, 5, 64, 65}) {
    tables.push_back({std::to_string(matrices) + " matrices", dealt_table(world_size, matrices, 100 + matrices)});
  }
  for (int owner = 0; owner < world_size; ++owner) {  // CASES 1: everybody else has an empty shard
    auto owned = none;
    owned[static_cast<std::size_t>(owner)] = 18 * 64;
    tables.push_back({"all on rank " + std::to_string(owner), owner_table(owned, 0)});
  }
  auto blocks = none;
  blocks[ranks / 2] = 5 * exchange_block + 7;
  blocks[0] += 2 * exchange_block;
  tables.push_back({"many blocks", owner_table(blocks, exchange_block + 1)});
  // Rank order reversed in the buffer, and each rank's first interval after its second.
  SegmentTable reversed;
  reversed.size = 30 * world_size;
  for (int rank = 0; rank < world_size; ++rank) {
    const std::int64_t begin = 15 * (world_size - 1 - rank);
    reversed.intervals.push_back(
        {Interval{begin + 15 * world_size, begin + 15 * world_size + 15}, Interval{begin, begin + 15}});
  }
  tables.push_back({"reversed", reversed});
  return tables;
}

/// This rank's unshard of `table`, where `ranks_per_node` ranks share a node (all, unless said otherwise).
inline Unshard unshard_of(Communicator& communicator, const SegmentTable& table,
                          CollectiveAlgorithm algorithm = CollectiveAlgorithm::direct, int ranks_per_node = 1 << 20,
                          std::optional<std::int64_t> block_elements = {}) {
  return prepare_unshard(algorithm, table, make_topology(communicator.size(), ranks_per_node), communicator.rank(),
                         block_elements);
}

/// A pass over the even cut: what this rank sums lands in `sums`.
inline Request reduce_evenly(Communicator& communicator, std::int64_t size, bool first, TensorView<float> gradient,
                             TensorView<float> sums, const OperationLabel& label) {
  const Reduce even = prepare_reduce(CollectiveAlgorithm::direct, even_table(size, communicator.size()));
  return reduce(communicator, even, {first ? 0 : 1, true}, gradient, {}, sums, label);
}

/// A float that tells (stream, element), with an exponent between 2^-12 and 2^12 and a sign, so that sums depend on
/// their order.
inline float value_at(std::uint64_t stream, std::int64_t element) {
  std::uint64_t z = static_cast<std::uint64_t>(element) * 0x9E3779B97F4A7C15ULL + stream * 0xD1342543DE82EF95ULL + 1;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  z ^= z >> 31;
  const auto mantissa = static_cast<float>(0x800000U | (z & 0x7FFFFFU));
  const int exponent = static_cast<int>((z >> 23) % 25) - 12;
  const float magnitude =
      exponent >= 0 ? mantissa * static_cast<float>(1 << exponent) : mantissa / static_cast<float>(1 << -exponent);
  return (z >> 63) != 0 ? -magnitude : magnitude;
}

/// A buffer, or a shard, that nothing has been written to.
inline Tensor<float> nans(std::int64_t count) {
  Tensor<float> values = make_tensor<float>("values", count);
  Kokkos::deep_copy(values, std::numeric_limits<float>::quiet_NaN());
  return values;
}

/// The gradient of a micro-batch.
inline Tensor<float> gradient_of(std::int64_t size, std::int64_t micro_batch) {
  Tensor<float> gradient = make_tensor<float>("gradient", size);
  for (std::int64_t i = 0; i < size; ++i)
    gradient(static_cast<std::size_t>(i)) = value_at(static_cast<std::uint64_t>(micro_batch), i);
  return gradient;
}

/// The left fold by micro-batch index of the gradients' element.
inline float folded(std::int64_t element, std::int64_t micro_batches) {
  float sum = value_at(0, element);
  for (std::int64_t i = 1; i < micro_batches; ++i)
    sum += value_at(static_cast<std::uint64_t>(i), element);
  return sum;
}

/// The same of groups of `group` neighbouring indices, whose sums are then folded. With a list of all sums: slow and
/// obvious.
inline float folded_in_groups(std::int64_t element, std::int64_t micro_batches, std::int64_t group) {
  std::vector<float> sums;
  for (std::int64_t first = 0; first < micro_batches; first += group) {
    float sum = value_at(static_cast<std::uint64_t>(first), element);
    for (std::int64_t i = first + 1; i < first + group; ++i)
      sum += value_at(static_cast<std::uint64_t>(i), element);
    sums.push_back(sum);
  }
  float all = sums.front();
  for (std::size_t i = 1; i < sums.size(); ++i)
    all += sums[i];
  return all;
}

}  // namespace matrixfsdp::testing

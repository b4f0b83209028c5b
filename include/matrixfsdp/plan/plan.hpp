#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/core/shape.hpp>
#include <matrixfsdp/plan/model_spec.hpp>

namespace matrixfsdp {

/// A contiguous interval of a parameter that lives on one rank.
struct Segment {
  std::size_t parameter = 0;  ///< index within the unit
  Interval elements;          ///< within the parameter
  int rank = 0;               ///< that holds it
  std::int64_t offset = 0;    ///< of elements.begin in the unit's flat buffer
};

/// Where the elements of one unit live. The flat buffer is the owner region, ordered by owning rank, then the tail
/// region: at most two intervals per rank. Every parameter is contiguous in the buffer. With row shards
/// (Plan::row_shards) the buffer that travels is by rank, and within a rank by parameter: `segments`, `owned` and their
/// offsets are those of that buffer, parameter_offsets those of a second one, in parameter order, into which it is
/// copied out.
struct MatrixShard {
  std::int64_t size = 0;                        ///< elements of the flat buffer
  std::vector<Segment> segments;                ///< by offset; they cover the buffer without gaps or overlap
  std::vector<std::int64_t> parameter_offsets;  ///< per parameter of the unit; -1 where the buffer leaves it out
  std::vector<Interval> owned;                  ///< per rank: its interval of the owner region
  std::vector<Interval> tails;                  ///< per rank: its interval of the tail region

  /// Elements that `rank`, in [0, W), holds: its owned interval, then its tail interval, one after the other.
  [[nodiscard]] std::int64_t shard_size(int rank) const {
    return owned[static_cast<std::size_t>(rank)].size() + tails[static_cast<std::size_t>(rank)].size();
  }
};

/// Both buffers of a unit. Gradients leave out frozen parameters; otherwise they have the layout of the weights.
struct UnitPlan {
  MatrixShard weights;    ///< all parameters
  MatrixShard gradients;  ///< trainable parameters
  double gamma = 1.0;     ///< O_max / (P / W): the most matrix-and-tail bytes of the unit on one rank over the mean
};

/// All segments of all units for one world size.
struct Plan {
  /// Policy that made it: "role", "scope", "cost", "balanced", "profile", "rows" or "replicated".
  std::string planner;
  int world_size = 1;       ///< ranks that the segments are cut over
  bool replicated = false;  ///< every rank holds everything (ddp): intervals are then those of the fold's chunks only
  bool row_shards = false;  ///< every parameter is cut by rows (fsdp2; see row_shards.hpp)
  std::vector<UnitPlan> units;  ///< same order as ModelSpec::units

  /// Owner of a matrix parameter. Throws ContractError for a tail, for indices that the plan does not have, and for a
  /// replicated plan or one of row shards.
  [[nodiscard]] int owner(std::size_t unit, std::size_t parameter) const;
};

/// Chunk of a buffer of `size` elements whose running sums rank `rank` keeps: [size*rank/W, size*(rank+1)/W), rounded
/// down, without overflow for any size. Throws ContractError unless size >= 0 and 0 <= rank < W.
Interval fold_chunk(std::int64_t size, int rank, int world_size);

/// Elements of the blocks over which squared norms are summed in double, within each parameter, in order. Tails are cut
/// over ranks only at multiples of it, so that no block has two owners.
inline constexpr std::int64_t norm_block = 4096;

/// Throws ContractError unless every element of every parameter has exactly one owner, matrices are whole (unless the
/// plan has row shards), intervals are in bounds and ordered. Called by the planner on what it made, and by the runtime
/// on what it is given.
void validate(const ModelSpec& model, const Plan& plan);

/// Fingerprint of where every element lives, compared across ranks at start: W, replicated, row shards or not, all
/// segments, offsets and intervals. Planner and gamma are not part of it.
std::uint64_t hash_of(const Plan& plan);

}  // namespace matrixfsdp

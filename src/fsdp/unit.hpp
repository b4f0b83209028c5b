#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>

#include "fsdp/copy_spans.hpp"

namespace matrixfsdp {

/// What one rank holds of one unit.
struct Unit {
  std::string name;
  UnitPolicy policy;
  Unshard unshard;          ///< of the weights
  Reduce reduce;            ///< of the gradients
  Unshard gradient_chunks;  ///< of the sums of a replicated plan, from their chunks to every rank

  Unshard unshard_held;  ///< of the weights, from the ranks that hold them from forward to backward

  Tensor<float> weight_shard;        ///< this rank's segments (the whole unit where it is resident), float32
  TensorView<float> gradient_shard;  ///< likewise, trainable parameters only; may share storage with other units
  Tensor<float> running_sums;        ///< of others' elements that this rank sums, from pass to pass

  TensorView<float> storage;  ///< the full weights, at one address for the whole run
  int slot = -1;              ///< -1: storage of its own
  TensorView<float> landing;  ///< of row shards: where the weights arrive, before they are copied out
  int landing_slot = 0;
  Tensor<CopySpan> weight_spans;    ///< likewise
  Tensor<CopySpan> gradient_spans;  ///< likewise
  UnitTensors<float> weights;
  UnitState state = UnitState::sharded;
  Tensor<float> held;         ///< this rank's part of them
  bool held_current = false;  ///< it is of today's weights
  bool current = false;       ///< storage holds today's weights, whether or not the unit is in use
  int uses = 0;
  Request unsharding;

  std::array<std::optional<std::vector<std::size_t>>, 2> prefetch;  ///< by phase; none: the next units

  TensorView<float> gradient_buffer;
  UnitTensors<float> gradients;
  bool gradient_begun = false;
  std::int64_t passes_reduced = 0;
  Request reducing;
  std::size_t gradient_slot = 0;  ///< of gradients that share storage

  // With step in backward, from the step's last reduce of the unit on.
  bool closed = false;              ///< nobody may unshard it: its weights change at any time
  bool stepped = false;             ///< its gradient is not needed any more
  std::vector<double> square_sums;  ///< of its gradient, when that had landed
};

/// Views of the parameters that `shard` places in `buffer`; empty where it leaves one out.
UnitTensors<float> parameter_tensors(const UnitSpec& spec, const MatrixShard& shard, const TensorView<float>& buffer);

/// Bytes of a tensor or view of float.
template <class View>
std::int64_t bytes_of(const View& view) {
  return static_cast<std::int64_t>(view.size()) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace matrixfsdp

#pragma once

#include <cstdint>
#include <vector>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/plan/transformer.hpp>

namespace matrixfsdp::train {

struct SampleOptions {
  std::int64_t count = 200;  ///< tokens
  double temperature = 0.8;  ///< 0: the most likely token
  std::uint64_t seed = 1;
  std::int64_t step = 0;           ///< of the weights: each step has random numbers of its own
  DType compute = DType::float32;  ///< of the products of weights
};

/// Collective: every rank continues `prompt` (at least one token; of more than the sequence length the last ones count)
/// in the same way. The same tokens at any W, for the same weights. A context that is full is cut to its later half.
std::vector<std::int32_t> sample(ShardedModel& model, const TransformerShape& shape, std::vector<std::int32_t> prompt,
                                 const SampleOptions& options);

}  // namespace matrixfsdp::train

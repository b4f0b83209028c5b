#pragma once

#include <cstdint>
#include <string>

#include "apps/train/metrics.hpp"
#include "apps/train/options.hpp"

namespace matrixfsdp::train {

/// What the last page of a run shows.
struct Summary {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  double first_loss = 0;
  double last_loss = 0;
  double validation_loss = 0;
  double unigram_entropy = 0;
  double tokens_per_second = 0;      ///< median over the steps
  std::int64_t optimizer_bytes = 0;  ///< sent by all optimizer steps of the run
  ByteCounts bytes_per_step;         ///< of the last step, all ranks
  std::int64_t parameters = 0;
  std::int64_t matrices = 0;  ///< orthogonalized per step
  int world_size = 1;
  int shard_size = 1;
  std::int64_t owned_bytes = 0;     ///< largest rank: weights, gradients, optimizer state
  std::int64_t gradient_bytes = 0;  ///< largest rank: of these, gradients
  std::int64_t peak_bytes = 0;      ///< largest rank: everything resident
  std::int64_t activation_bytes = 0;
  std::int64_t window_bytes = 0;           ///< largest rank: unsharded units, gradient buffers, staging, running sums
  std::int64_t predicted_owned_bytes = 0;  ///< the plan's figures for the same
  std::int64_t predicted_gradient_bytes = 0;
  std::int64_t predicted_window_bytes = 0;
  std::int64_t replicated_bytes = 0;  ///< weights, gradients and state on every rank without sharding
  int spare_ranks = 0;
  std::string backend;    ///< what carried the segments, and why
  bool verified = false;  ///< --verify compared everything
  std::string prompt;
  std::string sample;
  std::string checkpoint;         ///< empty: none
  std::int64_t saves = 0;         ///< of this run
  double checkpoint_seconds = 0;  ///< for which they stopped training, on the rank that waited longest
};

/// The page for people.
std::string to_text(const Summary& summary, const Options& options);
nlohmann::json to_json(const Summary& summary);

}  // namespace matrixfsdp::train

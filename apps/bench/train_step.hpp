#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <matrixfsdp/comm/session.hpp>

#include "apps/train/backend.hpp"

namespace matrixfsdp::bench {

/// `mfsdp-bench train-step`: whole training steps of each strategy, interleaved, beside the rate of sgemm in the same
/// run.
struct TrainStepOptions {
  std::string model = "gpt2:124m";
  std::int64_t sequence_length = 256;
  std::int64_t micro_batch = 4;
  std::int64_t passes = 1;  ///< per step and rank
  std::string optimizer = "muon";
  std::vector<std::string> strategies = {"matrix-fsdp"};
  bool recompute = false;
  train::Backend backend = train::Backend::automatic;
  std::int64_t rounds = 5;
  int threads = 1;
  bool json = false;
};
int train_step(Session& session, const TrainStepOptions& options);

}  // namespace matrixfsdp::bench

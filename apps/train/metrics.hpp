#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include <matrixfsdp/checkpoint/saver.hpp>
#include <matrixfsdp/comm/communicator.hpp>

namespace matrixfsdp::train {

/// Of one step: this rank's figures before `combine`, the job's after it.
struct StepMetrics {
  std::int64_t step = 0;
  double loss = 0;           ///< mean over the global batch, nats per token
  double gradient_norm = 0;  ///< of the raw gradients
  double learning_rate = 0;
  bool skipped = false;  ///< the gradient or the loss was not finite; no weight changed on any rank
  double forward = 0;    ///< seconds; the maximum over ranks, like the following
  double backward = 0;
  double clip = 0;
  double optimizer = 0;  ///< with step in backward: of units' steps, which are part of backward too
  double total = 0;
  double checkpoint = 0;  ///< for which saves stopped training since the line before
  double tokens_per_second = 0;
  ByteCounts bytes;                                         ///< since the line before; the sum over ranks
  std::int64_t peak_bytes = 0;                              ///< resident on one rank; the maximum over ranks
  std::int64_t matrices = 0;                                ///< orthogonalized; the sum over ranks
  io::SaveProgress save_progress = io::SaveProgress::idle;  ///< the largest of all ranks
  int stop_signal = 0;                                      ///< that a rank has received, if any
  std::int64_t failed = 0;  ///< parameters left unchanged by a failed orthogonalization; the sum over ranks
};

/// Exchanges what is a maximum or a sum over ranks.
StepMetrics combine(Communicator& communicator, const StepMetrics& mine, std::int64_t tokens);

/// `loss_bits` is the loss's bits in hexadecimal.
nlohmann::json to_json(const StepMetrics& metrics);
nlohmann::json to_json(const ByteCounts& bytes);

/// All bytes that all ranks sent since the start, with those of this exchange itself: nothing is sent afterwards but
/// the messages without payload that end the session.
ByteCounts final_bytes(Communicator& communicator);

/// Appends JSON lines to a file, each flushed. Rank 0 only.
class MetricsFile {
 public:
  /// Throws InputError when the file cannot be opened. `append`: a resumed run.
  MetricsFile(const std::string& path, bool append);
  void write(const nlohmann::json& line);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace matrixfsdp::train

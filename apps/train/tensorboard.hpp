#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "apps/train/metrics.hpp"

namespace matrixfsdp::train {

/// What TensorBoard shows of a step, by tag: "loss/train", "learning_rate", "gradient_norm", "tokens_per_second",
/// "peak_bytes", "milliseconds/forward" and the other phases, "bytes/unshard" and the other purposes.
std::vector<std::pair<std::string, double>> scalars_of(const StepMetrics& metrics);

/// An event file of TensorBoard: TFRecords of Event messages (tensorflow/core/util/event.proto), written by hand,
/// because the few fields that scalars take are stable and no reason to depend on protobuf. Values are float32 there.
/// Rank 0 only.
class TensorBoardFile {
 public:
  /// A new file in `folder`, which is made where it is missing. `steps_done` > 0, a resumed run: readers forget what
  /// earlier files of the folder say of later steps. Throws InputError where the file cannot be made.
  TensorBoardFile(const std::string& folder, std::int64_t steps_done);
  /// Written through. Throws IoError.
  void write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

 private:
  void write_event(const std::string& event);

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

}  // namespace matrixfsdp::train

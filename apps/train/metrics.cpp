#include "apps/train/metrics.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {

StepMetrics combine(Communicator& communicator, const StepMetrics& mine, std::int64_t tokens) {
  StepMetrics all = mine;
  all.bytes = {};
  all.matrices = all.failed = 0;
  for (const StepMetrics& rank :
       all_gather_value(communicator, Purpose::other, mine, {"metrics exchange", "", "step"})) {
    all.forward = std::max(all.forward, rank.forward);
    all.backward = std::max(all.backward, rank.backward);
    all.clip = std::max(all.clip, rank.clip);
    all.optimizer = std::max(all.optimizer, rank.optimizer);
    all.total = std::max(all.total, rank.total);
    all.checkpoint = std::max(all.checkpoint, rank.checkpoint);
    all.save_progress = std::max(all.save_progress, rank.save_progress);
    all.stop_signal = std::max(all.stop_signal, rank.stop_signal);
    all.peak_bytes = std::max(all.peak_bytes, rank.peak_bytes);
    all.matrices += rank.matrices;
    all.failed += rank.failed;
    for (std::size_t p = 0; p < purpose_count; ++p)
      all.bytes.sent[p] += rank.bytes.sent[p];
  }
  all.tokens_per_second = static_cast<double>(tokens) / all.total;
  return all;
}

nlohmann::json to_json(const ByteCounts& bytes) {
  nlohmann::json json;
  for (const Purpose purpose :
       {Purpose::unshard, Purpose::reduce, Purpose::clip, Purpose::optimizer, Purpose::health, Purpose::other}) {
    json[std::string(name_of(purpose))] = bytes[purpose];
  }
  return json;
}

nlohmann::json to_json(const StepMetrics& metrics) {
  const auto finite = [](double value) { return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(); };
  return {
      {"step", metrics.step},
      {"loss", finite(metrics.loss)},
      {"loss_bits", fmt::format("{:016x}", std::bit_cast<std::uint64_t>(metrics.loss))},
      {"grad_norm", finite(metrics.gradient_norm)},
      {"lr", metrics.learning_rate},
      {"skipped", metrics.skipped},
      {"tokens_per_second", metrics.tokens_per_second},
      {"milliseconds",
       {{"forward", 1e3 * metrics.forward},
        {"backward", 1e3 * metrics.backward},
        {"clip", 1e3 * metrics.clip},
        {"optimizer", 1e3 * metrics.optimizer},
        {"total", 1e3 * metrics.total},
        {"checkpoint", 1e3 * metrics.checkpoint}}},
      {"bytes", to_json(metrics.bytes)},
      {"peak_bytes", metrics.peak_bytes},
      {"matrices_orthogonalized", metrics.matrices},
      {"matrices_failed", metrics.failed},
  };
}

ByteCounts final_bytes(Communicator& communicator) {
  const OperationLabel label{"byte counts", "", "end"};
  // The first exchange shows what one costs; the second, of the same size, then carries totals that include it.
  const ByteCounts before = communicator.bytes();
  all_gather_value(communicator, Purpose::other, before, label);
  ByteCounts mine = communicator.bytes();
  for (std::size_t p = 0; p < purpose_count; ++p)
    mine.sent[p] += mine.sent[p] - before.sent[p];
  ByteCounts all;
  for (const ByteCounts& rank : all_gather_value(communicator, Purpose::other, mine, label)) {
    for (std::size_t p = 0; p < purpose_count; ++p)
      all.sent[p] += rank.sent[p];
  }
  return all;
}

MetricsFile::MetricsFile(const std::string& path, bool append)
    : path_(path), file_(std::fopen(path.c_str(), append ? "ae" : "we"), &std::fclose) {
  if (!file_) throw InputError(fmt::format("--metrics '{}': cannot be written ({})", path, std::strerror(errno)));
}

void MetricsFile::write(const nlohmann::json& line) {
  // Names of files need not be UTF-8.
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (!written || std::fflush(file_.get()) != 0) {
    throw IoError(fmt::format("metrics file {}: cannot be written ({})", path_, std::strerror(errno)));
  }
}

}  // namespace matrixfsdp::train

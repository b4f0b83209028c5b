#include "apps/train/summary.hpp"

#include <cmath>

#include <fmt/format.h>

namespace matrixfsdp::train {
namespace {

std::string bytes_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes < 10 * 1024) return fmt::format("{} B", bytes);
  if (bytes < 10 * 1024 * 1024) return fmt::format("{:.1f} KiB", value / 1024);
  if (bytes < std::int64_t{10} * 1024 * 1024 * 1024) return fmt::format("{:.1f} MiB", value / 1024 / 1024);
  return fmt::format("{:.1f} GiB", value / 1024 / 1024 / 1024);
}

std::string line(const char* name, const std::string& text) {
  return fmt::format("  {:<18}{}\n", name, text);
}

/// Printable text on one indented paragraph per line of the sample; other bytes as dots.
std::string quoted(const std::string& text) {
  std::string result = "    ";
  for (const char c : text) {
    if (c == '\n') {
      result += "\n    ";
    } else {
      result += static_cast<unsigned char>(c) < 32 || c == 127 ? '.' : c;
    }
  }
  return result + "\n";
}

/// What a run that goes on from this one's checkpoint cannot change stands behind what it can.
std::string next_steps(const Summary& s, const Options& options) {
  std::string text = "\n  what to try next\n";
  if (!s.checkpoint.empty()) {
    text += fmt::format("    --steps {:<12} train on from the checkpoint\n", 2 * options.steps);
    text += "  and from the start (quickstart.sh --fresh, or another --checkpoint-dir)\n";
  }
  text += "    --optimizer adamw   the same run without an optimizer of matrices\n";
  text += "    --strategy ddp      everything on every rank: the same losses, bit for bit\n";
  text += "    --verify            check that, gradient by gradient and weight by weight\n";
  text += "    --data FILE         your own text\n";
  return text;
}

}  // namespace

std::string to_text(const Summary& s, const Options& options) {
  const bool trained = s.last_step >= s.first_step;
  std::string text = trained ? fmt::format("\nTrained {} parameters for steps {} to {} on {} rank{}\n\n", s.parameters,
                                           s.first_step, s.last_step, s.world_size, s.world_size == 1 ? "" : "s")
                             : fmt::format("\nNothing left to train: all {} steps are done\n\n", s.last_step);
  if (trained) text += line("loss", fmt::format("{:.4f} -> {:.4f} nats per token", s.first_loss, s.last_loss));
  text += line("validation", fmt::format("{:.4f} (perplexity {:.2f}) on text held out of training", s.validation_loss,
                                         std::exp(s.validation_loss)));
  text += line("unigram entropy", fmt::format("{:.4f}: what a model reaches that ignores context", s.unigram_entropy));
  if (trained) {
    text += line("speed", fmt::format("{:.0f} tokens/s", s.tokens_per_second));
    const MatrixOptimizer optimizer = options.optimizer.matrices;
    const bool has_factors = optimizer == MatrixOptimizer::shampoo || optimizer == MatrixOptimizer::soap;
    const std::string matrices =
        optimizer == MatrixOptimizer::adamw
            ? ""
            : fmt::format(" for {} {} matrices", s.matrices, has_factors ? "preconditioned" : "orthogonalized");
    text +=
        line("optimizer step", fmt::format("{} bytes sent{} per step", s.bytes_per_step[Purpose::optimizer], matrices));
    text +=
        line("other traffic",
             fmt::format("per step: unshard {}, reduce {}, norm {}", bytes_text(s.bytes_per_step[Purpose::unshard]),
                         bytes_text(s.bytes_per_step[Purpose::reduce]), bytes_text(s.bytes_per_step[Purpose::clip])));
  }
  text += line("backend", s.backend);
  text +=
      line("memory per rank",
           fmt::format("{} of weights, gradients and state; full replication needs {} ({:.3f} of that; 1/{} is {:.3f})",
                       bytes_text(s.owned_bytes), bytes_text(s.replicated_bytes),
                       static_cast<double>(s.owned_bytes) / static_cast<double>(s.replicated_bytes), s.shard_size,
                       1.0 / s.shard_size));
  text += line("", fmt::format("{} with unsharded units, buffers and {} of activations", bytes_text(s.peak_bytes),
                               bytes_text(s.activation_bytes)));
  if (s.verified)
    text += line("verified", fmt::format("every {} of every step equals a replicated copy's, bit for bit",
                                         options.sharding.step_in_backward ? "weight" : "gradient and weight"));
  if (s.spare_ranks > 0) {
    text +=
        line("spare ranks", fmt::format("{} own no matrix: the model has fewer matrices than ranks", s.spare_ranks));
  }
  text += line("checkpoint", s.checkpoint.empty() ? "none (--checkpoint-dir DIR keeps one)" : s.checkpoint);
  if (s.saves > 0) {
    text += line("", fmt::format("{} save{} stopped training for {:.3f} s", s.saves, s.saves == 1 ? "" : "s",
                                 s.checkpoint_seconds));
  }
  text +=
      line("metrics", options.metrics.empty() ? "none (--metrics FILE.jsonl keeps a line per step)" : options.metrics);
  if (!s.sample.empty()) text += "\n  a sample, after \"..." + s.prompt + "\":\n\n" + quoted(s.sample);
  return text + next_steps(s, options);
}

nlohmann::json to_json(const Summary& s) {
  return {
      {"first_step", s.first_step},
      {"last_step", s.last_step},
      {"first_loss", s.first_loss},
      {"last_loss", s.last_loss},
      {"validation_loss", s.validation_loss},
      {"unigram_entropy", s.unigram_entropy},
      {"tokens_per_second", s.tokens_per_second},
      {"bytes", to_json(s.bytes_per_step)},
      {"optimizer_bytes", s.optimizer_bytes},
      {"parameters", s.parameters},
      {"matrices_orthogonalized", s.matrices},
      {"world_size", s.world_size},
      {"shard_size", s.shard_size},
      {"spare_ranks", s.spare_ranks},
      {"backend", s.backend},
      {"owned_bytes", s.owned_bytes},
      {"gradient_bytes", s.gradient_bytes},
      {"peak_bytes", s.peak_bytes},
      {"activation_bytes", s.activation_bytes},
      {"window_bytes", s.window_bytes},
      {"predicted_owned_bytes", s.predicted_owned_bytes},
      {"predicted_gradient_bytes", s.predicted_gradient_bytes},
      {"predicted_window_bytes", s.predicted_window_bytes},
      {"replicated_bytes", s.replicated_bytes},
      {"verified", s.verified},
      {"prompt", s.prompt},
      {"sample", s.sample},
      {"checkpoint", s.checkpoint},
      {"saves", s.saves},
      {"checkpoint_seconds", s.checkpoint_seconds},
  };
}

}  // namespace matrixfsdp::train

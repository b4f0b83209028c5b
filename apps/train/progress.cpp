#include "apps/train/progress.hpp"

#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace matrixfsdp::train {
namespace {

using Clock = std::chrono::steady_clock;

std::string eta_text(double seconds) {
  const std::int64_t whole = std::llround(seconds);
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

Progress::Progress(std::int64_t total_steps)
    : total_(total_steps), terminal_(isatty(fileno(stderr)) == 1), started_(Clock::now()) {}

void Progress::step(const StepMetrics& metrics) {
  ++steps_seen_;
  const auto now = Clock::now();
  const bool due = now - last_line_ >= (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000));
  if (!due && metrics.step != total_ && steps_seen_ != 1) return;
  last_line_ = now;
  const double per_step = std::chrono::duration<double>(now - started_).count() / static_cast<double>(steps_seen_);
  const std::string text = fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.3g}  {:.0f} tokens/s  {}{}", metrics.step, total_, metrics.loss,
      metrics.gradient_norm, metrics.tokens_per_second, metrics.skipped ? "SKIPPED: the gradient is not finite  " : "",
      metrics.step < total_ ? eta_text(per_step * static_cast<double>(total_ - metrics.step)) + " left" : "done");
  if (terminal_) {
    constexpr int width = 24;
    const auto filled = static_cast<int>(metrics.step * width / total_);
    fmt::print(stderr, "\r[{:=<{}}{: <{}}] {}\033[K", "", filled, "", width - filled, text);
    open_line_ = true;
  } else {
    fmt::print(stderr, "{}\n", text);
  }
  std::fflush(stderr);
}

void Progress::note(const std::string& text) {
  finish();
  fmt::print(stderr, "{}\n", text);
  std::fflush(stderr);
}

void Progress::finish() {
  if (open_line_) fmt::print(stderr, "\n");
  open_line_ = false;
}

}  // namespace matrixfsdp::train

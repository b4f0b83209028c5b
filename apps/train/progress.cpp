#include "apps/train/progress.hpp"

#include <cmath>
#include <cstdio>

#include <fmt/format.h>
#include <sys/ioctl.h>
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

/// Columns of the terminal; 0: not known.
std::size_t columns() {
  struct winsize size {};
  return ioctl(fileno(stderr), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// `text` behind a bar, or what of it fits into the terminal: a line that wraps could not be redrawn.
std::string fitted(const std::string& text, std::int64_t step, std::int64_t total) {
  constexpr std::size_t width = 24;
  const auto filled = static_cast<std::size_t>(step * static_cast<std::int64_t>(width) / total);
  const std::string bar = fmt::format("[{:=<{}}{: <{}}] ", "", filled, "", width - filled);
  const std::size_t room = columns() == 0 ? std::string::npos : columns() - 1;
  return bar.size() + text.size() <= room ? bar + text : text.substr(0, room);
}

}  // namespace

Progress::Progress(std::int64_t total_steps, ProgressLine line)
    : total_(total_steps),
      redrawn_(line == ProgressLine::yes || (line == ProgressLine::automatic && isatty(fileno(stderr)) == 1)),
      started_(Clock::now()) {}

void Progress::step(const StepMetrics& metrics) {
  ++steps_seen_;
  const auto now = Clock::now();
  const bool due = now - last_line_ >= (redrawn_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(5000));
  if (!due && metrics.step != total_ && steps_seen_ != 1) return;
  last_line_ = now;
  const double per_step = std::chrono::duration<double>(now - started_).count() / static_cast<double>(steps_seen_);
  const std::string text = fmt::format(
      "step {}/{}  loss {:.4f}  norm {:.3g}  {:.0f} tokens/s  {}{}", metrics.step, total_, metrics.loss,
      metrics.gradient_norm, metrics.tokens_per_second, metrics.skipped ? "SKIPPED: the gradient is not finite  " : "",
      metrics.step < total_ ? eta_text(per_step * static_cast<double>(total_ - metrics.step)) + " left" : "done");
  if (redrawn_) {
    fmt::print(stderr, "\r{}\033[K", fitted(text, metrics.step, total_));
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

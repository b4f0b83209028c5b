#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/train/backend.hpp"
#include "apps/train/model_options.hpp"
#include "apps/train/sampler.hpp"

namespace matrixfsdp::generate {

struct Command {
  std::string checkpoint;
  std::string model;  ///< as given; empty: the checkpoint's
  train::ShapeOverrides given;
  std::string prompt;
  std::optional<bool> is_text;  ///< nothing: as the checkpoint's run had it
  std::int64_t tokens = 200;
  double temperature = 0.8;
  std::optional<std::uint64_t> seed;  ///< nothing: the run's
  train::Backend backend = train::Backend::automatic;
  int threads = 1;
  double timeout_seconds = 300;
  bool json = false;
  std::string text_and_exit;  ///< not empty: print it and exit with 0
};

/// Throws InputError with one line for anything wrong.
Command parse_command(int argc, char** argv);

}  // namespace matrixfsdp::generate

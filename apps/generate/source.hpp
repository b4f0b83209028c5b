#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "apps/generate/command_line.hpp"

namespace matrixfsdp::generate {

/// A checkpoint, and what its manifest and the command together say about the model in it.
struct Source {
  std::string folder;  ///< of the step
  std::int64_t step = 0;
  std::uint64_t seed = 1;
  TransformerShape shape;
  bool is_text = true;
};

/// Collective: rank 0 looks, for all. Throws InputError on all ranks alike, where there is no checkpoint, where it
/// cannot be read, where neither it nor the command says what its model is, and where both do.
Source find_source(Communicator& communicator, const Command& command);

}  // namespace matrixfsdp::generate

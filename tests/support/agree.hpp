#pragma once

#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "support/mpi_world.hpp"

namespace matrixfsdp::testing {

/// Collective: the first rank's text that is not empty, with its rank, on every rank, so that all of them stop where
/// one does and nobody waits for a deadline.
inline std::string first_of_all_ranks(const std::string& mine) {
  const auto all = world().all_gather(Purpose::other, std::as_bytes(std::span(mine)), {"agreement", "", ""});
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const std::string_view text(reinterpret_cast<const char*>(all[rank].data()), all[rank].size());
    if (!text.empty()) return fmt::format("rank {}: {}", rank, text);
  }
  return {};
}

}  // namespace matrixfsdp::testing

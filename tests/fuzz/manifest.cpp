#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/manifest.hpp>

#include "support/with_checksum.hpp"

/// The text of a manifest, with a checksum that fits. What is accepted is written as it was read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace matrixfsdp;
  const std::string text = testing::with_checksum(std::string(reinterpret_cast<const char*>(data), size));
  try {
    const std::string again = to_text(io::parse_manifest(text, "m"));
    if (to_text(io::parse_manifest(again, "m")) != again) std::abort();
  } catch (const IoError&) {
    return 0;
  }
  return 0;
}

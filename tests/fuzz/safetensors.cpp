#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

/// A whole file. What is accepted covers its data exactly.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace matrixfsdp;
  try {
    const auto file = std::as_bytes(std::span(data, size));
    const io::SafetensorsHeader header = io::parse_safetensors(file, static_cast<std::int64_t>(size), "f");
    std::int64_t next = 0;
    for (const io::SafetensorsEntry& entry : header.tensors) {
      if (entry.bytes.begin != next) std::abort();
      if (entry.bytes.size() != element_count(entry.shape) * io::safetensors_size_of(entry.dtype)) std::abort();
      next = entry.bytes.end;
    }
    if (header.data_offset + next != static_cast<std::int64_t>(size)) std::abort();
  } catch (const IoError&) {
    return 0;
  }
  return 0;
}

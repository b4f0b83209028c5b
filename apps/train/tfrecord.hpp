#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace matrixfsdp::train {

/// CRC-32C (Castagnoli; RFC 3720, appendix B.4) of the bytes.
std::uint32_t crc32c(std::string_view bytes);

/// A record of a TFRecord file: its length (8 bytes, little-endian), the length's masked checksum, the data, the data's
/// masked checksum (4 bytes each). Masked is ((c >> 15) | (c << 17)) + 0xa282ead8, as the format's description has it.
std::string tfrecord(std::string_view data);

}  // namespace matrixfsdp::train

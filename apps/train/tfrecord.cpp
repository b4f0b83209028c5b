#include "apps/train/tfrecord.hpp"

#include <array>

namespace matrixfsdp::train {
namespace {

constexpr std::array<std::uint32_t, 256> crc_table() {
  constexpr std::uint32_t polynomial = 0x82f63b78;  // with the bits of a byte in reverse
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ ((crc & 1U) != 0 ? polynomial : 0);
    table[byte] = crc;
  }
  return table;
}

void append_little_endian(std::string& bytes, std::uint64_t value, int width) {
  for (int i = 0; i < width; ++i)
    bytes.push_back(static_cast<char>((value >> (8 * i)) & 0xffU));
}

void append_masked_crc(std::string& bytes, std::string_view of) {
  const std::uint32_t crc = crc32c(of);
  append_little_endian(bytes, static_cast<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8U), 4);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t crc = 0xffffffffU;
  for (const char c : bytes)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xffU];
  return ~crc;
}

std::string tfrecord(std::string_view data) {
  std::string record;
  append_little_endian(record, data.size(), 8);
  append_masked_crc(record, std::string_view(record));
  record += data;
  append_masked_crc(record, data);
  return record;
}

}  // namespace matrixfsdp::train

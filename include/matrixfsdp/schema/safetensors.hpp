#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <matrixfsdp/core/shape.hpp>

/// @file
/// Files in the safetensors format (Hugging Face): 8 bytes length of the header (little-endian), a JSON object, data.
namespace matrixfsdp::io {

/// A tensor of such a file.
struct SafetensorsEntry {
  std::string name;     ///< unique in the file
  std::string dtype;    ///< "F32", "BF16", ...
  Shape shape;          ///< row-major; empty: a scalar
  Interval bytes = {};  ///< within the data
};

/// What the first bytes of such a file say.
struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;  ///< "__metadata__": texts by name
  std::vector<SafetensorsEntry> tensors;        ///< by place in the data
  std::int64_t data_offset = 0;                 ///< of the data in the file
};

/// Bytes of one element: of BOOL, U8, I8, F8_E4M3, F8_E5M2, U16, I16, F16, BF16, U32, I32, F32, U64, I64, F64. Throws
/// InputError for any other name.
std::int64_t safetensors_size_of(std::string_view dtype);

/// The longest header that is read: what other readers of the format take.
inline constexpr std::int64_t safetensors_most_header_bytes = 100'000'000;

/// Reads the header of a file of `file_bytes` bytes from its first bytes, which hold all of it. Strict: the length fits
/// the file and the limit; an object of known fields; names unique; dtypes known; extents not negative; tensors as long
/// as shape and dtype say, one after another without gap or overlap, from the first byte of the data to the last.
/// Throws IoError: source, tensor, what is there, what was expected.
SafetensorsHeader parse_safetensors(std::span<const std::byte> start, std::int64_t file_bytes,
                                    const std::string& source);

/// A file that is being read.
class SafetensorsReader {
 public:
  /// Throws IoError where the file cannot be read, and as parse_safetensors.
  explicit SafetensorsReader(std::string path);
  ~SafetensorsReader();
  SafetensorsReader(SafetensorsReader&&) noexcept;             ///< the other may only be destroyed or assigned to
  SafetensorsReader& operator=(SafetensorsReader&&) noexcept;  ///< as the constructor

  [[nodiscard]] const std::string& path() const;          ///< as the constructor was told
  [[nodiscard]] const SafetensorsHeader& header() const;  ///< valid as long as the reader

  /// Passes a tensor's bytes to `sink` in blocks of at most 1 MiB that hold whole elements; `first` counts elements.
  /// Throws IoError where the disk fails. The format has no checksums.
  void read(const SafetensorsEntry& entry,
            const std::function<void(std::int64_t first, std::span<const std::byte> values)>& sink) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// A new file. It appears under its name when it is complete.
class SafetensorsWriter {
 public:
  /// `tensors` in the order in which their bytes will come; their places are computed here. Throws InputError where the
  /// file exists, IoError where it cannot be written.
  SafetensorsWriter(std::string path, std::vector<SafetensorsEntry> tensors,
                    const std::map<std::string, std::string>& metadata);
  /// Removes what was not closed.
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// The next bytes of the data. Throws IoError.
  void append(std::span<const std::byte> bytes);

  /// Waits until the file is on disk, and gives it its name. Throws ContractError unless all bytes have come.
  void close();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp::io

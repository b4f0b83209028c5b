#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/core/shape.hpp>

/// @file
/// HDF5 files with one plain, contiguous, little-endian dataset per tensor (io/FORMAT.md). One thread at a time. HDF5's
/// own printing of errors is off inside these calls, and as the caller left it outside.
namespace matrixfsdp::io {

/// What a dataset holds: elements [begin, end) of a parameter, or of an optimizer state of the same shape.
struct TensorInfo {
  DType dtype = DType::float32;  ///< of the elements as they are stored
  Shape global_shape;            ///< of the whole parameter
  Interval elements;             ///< of the parameter that are here
  std::string optimizer = {};    ///< whose state it is; empty for weights

  /// All elements of the parameter.
  [[nodiscard]] bool whole() const { return elements == Interval{0, element_count(global_shape)}; }
};

/// "/parameters/NAME" for what = "weight", else "/optimizer/NAME/WHAT"; "/segment.K" follows where segment K >= 0 is
/// only a part of the tensor.
std::string dataset_path(const std::string& parameter, const std::string& what, std::int64_t segment);

/// Writes one new file. After the first failure every call throws: HDF5 itself reports success for what follows a
/// failed write.
class TensorFileWriter {
 public:
  /// Throws IoError where the file exists or cannot be created.
  explicit TensorFileWriter(std::string path);
  /// Closes without a word what close() has not closed; such a file is not to be used.
  ~TensorFileWriter();
  TensorFileWriter(const TensorFileWriter&) = delete;
  TensorFileWriter& operator=(const TensorFileWriter&) = delete;

  /// Writes a dataset with its attributes and returns its checksum. A whole tensor has its shape, a segment is
  /// one-dimensional. `values`: exactly the elements of `info`, also when that is none. Throws ContractError where the
  /// elements do not lie inside the global shape or `values` has another size; IoError where HDF5 or the disk fails,
  /// and for a dataset that is there already.
  std::uint64_t write(const std::string& dataset, const TensorInfo& info, std::span<const std::byte> values);

  /// Flushes and closes the file and waits until it is on disk. Throws IoError. The last call.
  void close();

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

/// Reads a file whose size and content have been verified (verify_file): a malformed one may crash HDF5.
class TensorFileReader {
 public:
  /// Throws IoError where the file cannot be opened as HDF5.
  explicit TensorFileReader(std::string path);
  ~TensorFileReader();
  TensorFileReader(const TensorFileReader&) = delete;
  TensorFileReader& operator=(const TensorFileReader&) = delete;

  /// What the attributes of a dataset say. Throws IoError where dataset or attributes are missing or do not fit.
  [[nodiscard]] TensorInfo info(const std::string& dataset) const;

  /// Elements from `first` on (counted from the start of the dataset).
  using Sink = std::function<void(std::int64_t first, std::span<const std::byte> values)>;

  /// Passes the dataset to `sink` from start to end, in blocks of at most `block_bytes` (but one element at least),
  /// then throws IoError (file, dataset, both checksums) unless what was read has the checksum that was written: `sink`
  /// has seen damaged values then. Returns that checksum. Throws IoError as info, and where the disk fails.
  std::uint64_t read(const std::string& dataset, const Sink& sink, std::int64_t block_bytes = 1 << 20) const;

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace matrixfsdp::io

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace matrixfsdp::io {

/// A regular file's bytes, mapped read-only. Movable.
class MappedFile {
 public:
  /// Throws InputError, naming the file, where it is missing, unreadable, not a regular file, or empty.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return {data_, size_}; }

 private:
  std::string path_;
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace matrixfsdp::io

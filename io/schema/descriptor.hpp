#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace matrixfsdp::io {

/// Throws IoError: path, operation, and what errno says.
[[noreturn]] void throw_system_error(const std::string& path, const char* operation);

/// An open file. close() is checked where bytes were written; the destructor is for the other ways out.
class Descriptor {
 public:
  Descriptor(const std::string& path, int flags);
  ~Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Throws IoError unless it is a regular file.
  [[nodiscard]] std::int64_t size() const;

  /// Up to `size` bytes; 0 at the end.
  std::size_t read(void* bytes, std::size_t size) const;
  /// Exactly `size` bytes from `offset` on; throws IoError where the file ends before.
  void read_at(std::int64_t offset, void* bytes, std::size_t size) const;

  void write(std::string_view text) const;
  void flush() const;
  void close();

 private:
  std::string path_;
  int value_;
};

}  // namespace matrixfsdp::io

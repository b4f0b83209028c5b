#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include <hdf5.h>

#include <matrixfsdp/core/dtype.hpp>

namespace matrixfsdp::io {

/// Turns HDF5's printing of errors off while it lives. The setting belongs to the process, so it is put back.
class QuietErrors {
 public:
  QuietErrors() noexcept;
  ~QuietErrors();
  QuietErrors(const QuietErrors&) = delete;
  QuietErrors& operator=(const QuietErrors&) = delete;

 private:
  H5E_auto2_t function_ = nullptr;
  void* data_ = nullptr;
  bool taken_;  // after the two that its initializer fills
};

/// Owns an HDF5 identifier.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close function) : id_(id), close_(function) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }

  [[nodiscard]] hid_t get() const { return id_; }
  /// Closes now; false when HDF5 reports a failure.
  bool close() { return id_ < 0 || close_(std::exchange(id_, -1)) >= 0; }

 private:
  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Where an operation acts, for messages.
struct Location {
  const std::string& path;
  std::string dataset;  ///< empty: the file
};

/// Throws IoError: file, dataset, operation, and the first cause on HDF5's error stack.
[[noreturn]] void throw_hdf5(const Location& location, const char* operation);

/// `result` of an HDF5 call, or throw_hdf5 where it is negative.
template <class Result>
Result check(Result result, const Location& location, const char* operation) {
  if (result < 0) throw_hdf5(location, operation);
  return result;
}

inline Handle own(hid_t id, Handle::Close close, const Location& location, const char* operation) {
  return {check(id, location, operation), close};
}

/// Type of the elements in the file; also used in memory, so that bits are never converted. bfloat16 is a
/// floating-point type of 1 sign, 8 exponent and 7 mantissa bits.
Handle element_type(DType dtype, const Location& location);

/// File access without locks: on network file systems they fail (h5py#1082), and a file is written by one process under
/// a name that no other knows, and only read afterwards. Without a sieve buffer: a write that fails must be known from
/// the write, because a dataset whose closing fails is as bad as a file (see abandon).
Handle file_access(const Location& location);

/// Descriptor of an open file.
int descriptor_of(const Handle& file, const Location& location);

/// Closes a file of which a write has failed, and gives up its content. HDF5 keeps a file whose closing fails on its
/// list of open files although it has freed it, and crashes at exit: so what is left to write goes to memory.
void abandon(Handle& file) noexcept;

}  // namespace matrixfsdp::io

#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/checkpoint/local_tensors.hpp"

namespace matrixfsdp::io {

/// Tensors as they are now, which a writer thread reads one after the other while their owner goes on. Before the owner
/// changes them, it copies those that have not been read yet.
class Snapshot {
 public:
  /// Where copies lie, by index: kept from one save to the next of the same tensors, because memory that is touched for
  /// the first time takes several times as long.
  using Buffer = std::unique_ptr<float[], void (*)(float*)>;
  using Copies = std::vector<Buffer>;

  /// `in_place`: the owner changes nothing until the writer has ended, so nothing is copied at all.
  Snapshot(std::vector<LocalTensor> tensors, bool in_place, std::shared_ptr<Copies> copies);

  /// Their values are read through read() only. They refer to nothing but this.
  [[nodiscard]] const std::vector<LocalTensor>& tensors() const { return tensors_; }

  /// The writer, for each index in order: valid until the next call. The values leave their place by a copy (of one
  /// tensor at a time), so that the owner never waits for the disk.
  [[nodiscard]] std::span<const float> read(std::size_t index);

  /// The owner: when it returns, the tensors may change. Returns the bytes that it copied.
  std::int64_t detach();

 private:
  enum class Place { original, moving, read, copied };

  /// Whether detach() has copied the tensor; if not, it is moving from now on.
  bool copied_or_moving(std::size_t index);

  static Buffer make_buffer(std::size_t elements);
  static void copy(const LocalTensor& tensor, float* target);

  std::vector<ParameterSpec> specs_;
  std::vector<LocalTensor> tensors_;
  bool in_place_;
  std::shared_ptr<Copies> copies_;
  Buffer moved_values_{nullptr, nullptr};  // the writer's, of the largest tensor

  std::mutex mutex_;  // of what follows
  std::condition_variable moved_;
  std::vector<Place> places_;
};

}  // namespace matrixfsdp::io

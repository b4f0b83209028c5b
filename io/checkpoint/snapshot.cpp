#include "io/checkpoint/snapshot.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace matrixfsdp::io {
namespace {

/// Pages of this size are 20 times cheaper to touch for the first time, per byte, than the smallest.
constexpr std::size_t large_page = std::size_t{1} << 21;

void release(float* values) {
  std::free(values);
}

}  // namespace

Snapshot::Buffer Snapshot::make_buffer(std::size_t elements) {
  const std::size_t bytes = std::max(elements, std::size_t{1}) * sizeof(float);
  const std::size_t alignment = bytes >= large_page ? large_page : std::size_t{64};
  void* memory = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (alignment == large_page) ::madvise(memory, bytes, MADV_HUGEPAGE);  // a wish: slower without
#endif
  return {static_cast<float*>(memory), release};
}

void Snapshot::copy(const LocalTensor& tensor, float* target) {
  if (tensor.values.size() > 0) std::memcpy(target, tensor.values.data(), tensor.values.size() * sizeof(float));
}

Snapshot::Snapshot(std::vector<LocalTensor> tensors, bool in_place)
    : tensors_(std::move(tensors)), in_place_(in_place), entries_(tensors_.size()) {
  specs_.reserve(tensors_.size());
  for (LocalTensor& tensor : tensors_) {
    specs_.push_back(*tensor.spec);
    tensor.spec = &specs_.back();
  }
}

std::span<const float> Snapshot::read(std::size_t index) {
  const LocalTensor& tensor = tensors_[index];
  const std::size_t size = tensor.values.size();
  if (in_place_) return {tensor.values.data(), size};
  if (take_copy(index, Place::original)) return {current_.get(), size};
  if (current_ == nullptr || current_elements_ < size) {  // before anybody waits for it, because it may fail
    current_.reset();
    current_ = make_buffer(size);
    current_elements_ = size;
  }
  if (take_copy(index, Place::moving)) return {current_.get(), size};
  copy(tensor, current_.get());
  const std::lock_guard lock(mutex_);
  entries_[index].place = Place::elsewhere;
  moved_.notify_all();
  return {current_.get(), size};
}

bool Snapshot::take_copy(std::size_t index, Place otherwise) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[index];
  if (entry.place == Place::original) {
    entry.place = otherwise;
    return false;
  }
  current_ = std::exchange(entry.copy, Buffer{nullptr, nullptr});
  current_elements_ = tensors_[index].values.size();
  return true;
}

std::int64_t Snapshot::detach() {
  std::int64_t bytes = 0;
  std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    Entry& entry = entries_[i];
    if (entry.place != Place::original) continue;
    entry.copy = make_buffer(tensors_[i].values.size());
    copy(tensors_[i], entry.copy.get());
    entry.place = Place::elsewhere;
    bytes += static_cast<std::int64_t>(tensors_[i].values.size() * sizeof(float));
  }
  moved_.wait(lock, [&] {
    return std::none_of(entries_.begin(), entries_.end(),
                        [](const Entry& entry) { return entry.place == Place::moving; });
  });
  return bytes;
}

}  // namespace matrixfsdp::io

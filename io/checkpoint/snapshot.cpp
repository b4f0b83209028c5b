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

Snapshot::Snapshot(std::vector<LocalTensor> tensors, bool in_place, std::shared_ptr<Copies> copies)
    : tensors_(std::move(tensors)),
      in_place_(in_place),
      copies_(std::move(copies)),
      places_(tensors_.size(), Place::original) {
  while (copies_->size() < tensors_.size())
    copies_->emplace_back(nullptr, release);
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
  if (moved_values_ == nullptr) {  // before anybody waits for it, because it may fail
    const auto largest = std::max_element(tensors_.begin(), tensors_.end(), [](const auto& a, const auto& b) {
      return a.values.size() < b.values.size();
    });
    moved_values_ = make_buffer(largest->values.size());
  }
  if (copied_or_moving(index)) return {(*copies_)[index].get(), size};
  copy(tensor, moved_values_.get());
  const std::lock_guard lock(mutex_);
  places_[index] = Place::read;
  moved_.notify_all();
  return {moved_values_.get(), size};
}

bool Snapshot::copied_or_moving(std::size_t index) {
  const std::lock_guard lock(mutex_);
  if (places_[index] == Place::copied) return true;
  places_[index] = Place::moving;
  return false;
}

std::int64_t Snapshot::detach() {
  std::int64_t bytes = 0;
  std::unique_lock lock(mutex_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (places_[i] != Place::original) continue;
    Buffer& target = (*copies_)[i];
    if (target == nullptr) target = make_buffer(tensors_[i].values.size());
    copy(tensors_[i], target.get());
    places_[i] = Place::copied;
    bytes += static_cast<std::int64_t>(tensors_[i].values.size() * sizeof(float));
  }
  moved_.wait(lock, [&] { return std::find(places_.begin(), places_.end(), Place::moving) == places_.end(); });
  return bytes;
}

}  // namespace matrixfsdp::io

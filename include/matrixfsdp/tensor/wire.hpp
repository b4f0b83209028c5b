#pragma once

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

/// @file
/// Values that travel, or are computed with, as bfloat16. A buffer of n float32 holds n words of 16 bits in one half
/// while they are under way, so that nothing else is allocated. Kernels on the default execution space; each returns
/// when its result is there.
namespace matrixfsdp {

/// The words of `buffer` before widen: its upper half.
inline TensorView<bfloat16> upper_words(const TensorView<float>& buffer) {
  return TensorView<bfloat16>(reinterpret_cast<bfloat16*>(buffer.data()) + buffer.size(), buffer.size());
}

/// The words of `buffer` after round_in_place: its lower half.
inline TensorView<bfloat16> lower_words(const TensorView<float>& buffer) {
  return TensorView<bfloat16>(reinterpret_cast<bfloat16*>(buffer.data()), buffer.size());
}

/// words[i] = values[i], rounded. They have equally many elements and do not overlap.
void round_to_words(const TensorView<const float>& values, const TensorView<bfloat16>& words);

/// Every element of `buffer` becomes its upper word, exactly.
void widen(const TensorView<float>& buffer);

/// The lower words of `buffer` become its elements, rounded; the elements are lost.
void round_in_place(const TensorView<float>& buffer);

/// As these three, started on `space` behind what has been started there before.
void start_round_to_words(const ExecutionSpace& space, const TensorView<const float>& values,
                          const TensorView<bfloat16>& words);
/// widen, started as start_round_to_words is.
void start_widen(const ExecutionSpace& space, const TensorView<float>& buffer);
/// round_in_place, started as start_round_to_words is.
void start_round_in_place(const ExecutionSpace& space, const TensorView<float>& buffer);

/// rounded[i] = values[i], rounded to bfloat16 and widened again: the bits that come through round_to_words and widen.
/// They have equally many elements, and are the same or do not overlap.
void round_through_words(const TensorView<const float>& values, const TensorView<float>& rounded);

}  // namespace matrixfsdp

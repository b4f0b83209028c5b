#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/rotary.hpp>

#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {
namespace detail {

// One kernel row is one head of one token. `sign` -1 turns backwards.
template <class T>
void rotate(MatrixView<T> x, std::int64_t sequence_length, std::int64_t head_dimension, const T* cosine, const T* sine,
            T sign) {
  const std::int64_t half = head_dimension / 2;
  const std::int64_t heads = x.cols / head_dimension;
  for_rows(
      "matrixfsdp::nn::rotary", x.rows * heads, KOKKOS_LAMBDA(const Row& row, const std::int64_t index) {
        const std::int64_t token = index / heads;
        const std::int64_t position = token % sequence_length;
        T* const first = x.data + token * x.stride + (index % heads) * head_dimension;
        T* const second = first + half;
        const T* const c = cosine + position * half;
        const T* const s = sine + position * half;
        row.for_each(half, [&](std::int64_t i) {
          const T a = first[i];
          const T b = second[i];
          const T turn = sign * s[i];
          first[i] = a * c[i] - b * turn;
          second[i] = b * c[i] + a * turn;
        });
      });
}

}  // namespace detail

namespace {

/// Elements of each table.
std::int64_t checked_size(std::int64_t sequence_length, std::int64_t head_dimension) {
  if (sequence_length < 1) {
    throw ContractError(fmt::format("rotary: sequence length {}, expected at least 1", sequence_length));
  }
  if (head_dimension < 1 || head_dimension % 2 != 0) {
    throw ContractError(fmt::format("rotary: head dimension {}, expected a positive, even one", head_dimension));
  }
  return sequence_length * (head_dimension / 2);
}

}  // namespace

template <class T>
Rotary<T>::Rotary(std::int64_t sequence_length, std::int64_t head_dimension)
    : sequence_length_(sequence_length),
      head_dimension_(head_dimension),
      cosine_(make_tensor<T>("matrixfsdp::nn::rotary_cosine", checked_size(sequence_length, head_dimension))),
      sine_(make_tensor<T>("matrixfsdp::nn::rotary_sine", checked_size(sequence_length, head_dimension))) {
  const std::int64_t half = head_dimension / 2;
  Kokkos::fence();
  for (std::int64_t position = 0; position < sequence_length; ++position) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(head_dimension));
      cosine_.data()[position * half + i] = static_cast<T>(std::cos(angle));
      sine_.data()[position * half + i] = static_cast<T>(std::sin(angle));
    }
  }
}

template <class T>
void Rotary<T>::forward(MatrixView<T> x) const {
  detail::rotate<T>(x, sequence_length_, head_dimension_, cosine_.data(), sine_.data(), T{1});
}

template <class T>
void Rotary<T>::backward(MatrixView<T> dx) const {
  detail::rotate<T>(dx, sequence_length_, head_dimension_, cosine_.data(), sine_.data(), T{-1});
}

template <class T>
std::int64_t Rotary<T>::bytes() const {
  return static_cast<std::int64_t>((cosine_.size() + sine_.size()) * sizeof(T));
}

template class Rotary<float>;
template class Rotary<double>;

}  // namespace matrixfsdp::nn

#include "nn/rounded_operands.hpp"

#include <matrixfsdp/core/error.hpp>

#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn::detail {
namespace {

bool same(const MatrixView<const float>& a, const MatrixView<const float>& b) {
  return a.data == b.data && a.rows == b.rows && a.cols == b.cols && a.stride == b.stride;
}

void grow(Tensor<bfloat16>& words, std::int64_t count) {
  if (static_cast<std::int64_t>(words.extent(0)) >= count) return;
  words = make_tensor<bfloat16>("matrixfsdp::nn::rounded", 0);  // the old ones are not needed
  words = make_tensor<bfloat16>("matrixfsdp::nn::rounded", count);
}

}  // namespace

void round_rows(MatrixView<const float> from, MatrixView<bfloat16> to) {
  for_rows(
      "matrixfsdp::nn::round_rows", from.rows, KOKKOS_LAMBDA(const Row& row, const std::int64_t r) {
        const float* const in = from.data + r * from.stride;
        bfloat16* const out = to.data + r * to.stride;
        row.for_each(from.cols, [&](std::int64_t i) { out[i] = to_bfloat16(in[i]); });
      });
}

MatrixView<const bfloat16> RoundedOperands::round_into(std::size_t place, MatrixView<const float> operand) {
  grow(words_[place], operand.rows * operand.cols);
  const MatrixView<bfloat16> words(words_[place].data(), operand.rows, operand.cols);
  round_rows(operand, words);
  return words;
}

MatrixView<const bfloat16> RoundedOperands::rounded(Role role, MatrixView<const float> operand) {
  for (std::size_t i = 0; i < held_; ++i) {
    if (same(of_[i], operand)) return {words_[2 + i].data(), operand.rows, operand.cols};
  }
  return round_into(role == Role::a ? 0 : 1, operand);
}

void RoundedOperands::hold(MatrixView<const float> operand) {
  require(held_ < most_held, "Products::Held: two operands are held, expected fewer");
  of_[held_] = operand;
  round_into(2 + held_, operand);
  ++held_;
}

void RoundedOperands::reserve(const std::array<std::int64_t, 4>& elements) {
  for (std::size_t place = 0; place < words_.size(); ++place)
    grow(words_[place], elements[place]);
}

std::int64_t RoundedOperands::bytes() const {
  std::int64_t bytes = 0;
  for (const Tensor<bfloat16>& words : words_)
    bytes += static_cast<std::int64_t>(words.extent(0) * sizeof(bfloat16));
  return bytes;
}

}  // namespace matrixfsdp::nn::detail

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/nn/attention.hpp>

#include "nn/attention_kernels.hpp"

namespace matrixfsdp::nn {
namespace {

using linalg::Op;

void require_valid(const AttentionShape& shape) {
  const auto positive = [](const char* name, std::int64_t extent) {
    if (extent < 1) throw ContractError(fmt::format("attention: {} {}, expected at least 1", name, extent));
  };
  positive("sequences", shape.sequences);
  positive("sequence length", shape.sequence_length);
  positive("heads", shape.heads);
  positive("kv heads", shape.kv_heads);
  positive("head dimension", shape.head_dimension);
  positive("query block", shape.query_block);
  if (shape.heads % shape.kv_heads != 0) {
    throw ContractError(fmt::format("attention: heads {} and kv heads {}, expected kv heads that divide heads",
                                    shape.heads, shape.kv_heads));
  }
}

std::int64_t rows_of_block(const AttentionShape& shape) {
  return std::min(shape.query_block, shape.sequence_length);
}

template <class T>
T score_scale(const AttentionShape& shape) {
  return static_cast<T>(1.0 / std::sqrt(static_cast<double>(shape.head_dimension)));
}

/// Query, key and value of one head of one sequence, or their gradients: blocks of columns of the fused array.
template <class T>
struct HeadBlocks {
  MatrixView<T> q;
  MatrixView<T> k;
  MatrixView<T> v;

  HeadBlocks(const AttentionShape& shape, MatrixView<T> qkv, std::int64_t sequence, std::int64_t head) {
    const std::int64_t d = shape.head_dimension;
    const std::int64_t kv_head = head / (shape.heads / shape.kv_heads);
    const MatrixView<T> rows = qkv.row_block(sequence * shape.sequence_length, shape.sequence_length);
    q = rows.col_block(head * d, d);
    k = rows.col_block((shape.heads + kv_head) * d, d);
    v = rows.col_block((shape.heads + shape.kv_heads + kv_head) * d, d);
  }
};

/// Columns of one head in an array tokens x heads * head_dimension.
template <class T>
MatrixView<T> head_of(const AttentionShape& shape, MatrixView<T> x, std::int64_t sequence, std::int64_t head) {
  return x.row_block(sequence * shape.sequence_length, shape.sequence_length)
      .col_block(head * shape.head_dimension, shape.head_dimension);
}

}  // namespace

std::int64_t AttentionShape::scratch_elements() const {
  return 2 * std::min(query_block, sequence_length) * sequence_length;
}

template <class T>
void attention_forward(const AttentionShape& shape, MatrixView<const std::type_identity_t<T>> qkv,
                       MatrixView<std::type_identity_t<T>> out, TensorView<T> log_sum, TensorView<T> scratch,
                       Products& products) {
  require_valid(shape);
  const std::int64_t length = shape.sequence_length;
  const std::int64_t block = rows_of_block(shape);
  const MatrixView<T> block_scores(scratch.data(), block, length);
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadBlocks<const T> in(shape, qkv, sequence, head);
      const MatrixView<T> result = head_of<T>(shape, out, sequence, head);
      T* const head_log_sum = log_sum.data() + (sequence * shape.heads + head) * length;
      for (std::int64_t first = 0; first < length; first += block) {
        const std::int64_t count = std::min(block, length - first);
        const std::int64_t keys = first + count;
        const MatrixView<T> scores = block_scores.row_block(0, count).col_block(0, keys);
        products.multiply<T>(Op::none, Op::transpose, score_scale<T>(shape), in.q.row_block(first, count),
                             in.k.row_block(0, keys), T{0}, scores);
        detail::causal_softmax<T>(scores, first, head_log_sum + first);
        products.multiply<T>(Op::none, Op::none, T{1}, scores, in.v.row_block(0, keys), T{0},
                             result.row_block(first, count));
      }
    }
  }
}

template <class T>
void attention_backward(const AttentionShape& shape, MatrixView<const std::type_identity_t<T>> qkv,
                        MatrixView<const std::type_identity_t<T>> out, TensorView<T> log_sum,
                        MatrixView<const std::type_identity_t<T>> dout, MatrixView<std::type_identity_t<T>> dqkv,
                        TensorView<T> delta, TensorView<T> scratch, Products& products) {
  require_valid(shape);
  const std::int64_t length = shape.sequence_length;
  const std::int64_t block = rows_of_block(shape);
  const T scale = score_scale<T>(shape);
  const MatrixView<T> block_scores(scratch.data(), block, length);
  const MatrixView<T> block_gradients(scratch.data() + block * length, block, length);
  detail::attention_delta<T>(out, dout, length, shape.head_dimension, delta.data());
  for (std::int64_t sequence = 0; sequence < shape.sequences; ++sequence) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const HeadBlocks<const T> in(shape, qkv, sequence, head);
      const HeadBlocks<T> d(shape, dqkv, sequence, head);
      const MatrixView<const T> d_result = head_of<const T>(shape, dout, sequence, head);
      const std::int64_t row = (sequence * shape.heads + head) * length;
      const bool first_of_group = head % (shape.heads / shape.kv_heads) == 0;
      // From the last block down: it sees all keys, so it can overwrite their gradients, and the others add to them.
      for (std::int64_t first = (length - 1) / block * block; first >= 0; first -= block) {
        const std::int64_t count = std::min(block, length - first);
        const std::int64_t keys = first + count;
        const MatrixView<T> scores = block_scores.row_block(0, count).col_block(0, keys);
        const MatrixView<T> gradients = block_gradients.row_block(0, count).col_block(0, keys);
        const auto q = in.q.row_block(first, count);
        const auto k = in.k.row_block(0, keys);
        const auto dy = d_result.row_block(first, count);
        const T beta = first_of_group && keys == length ? T{0} : T{1};
        {
          const Products::Recomputation again(products);
          products.multiply<T>(Op::none, Op::transpose, scale, q, k, T{0}, scores);
        }
        products.multiply<T>(Op::none, Op::transpose, T{1}, dy, in.v.row_block(0, keys), T{0}, gradients);
        detail::causal_softmax_backward<T>(scores, gradients, first, log_sum.data() + row + first,
                                           delta.data() + row + first);
        products.multiply<T>(Op::transpose, Op::none, T{1}, scores, dy, beta, d.v.row_block(0, keys));
        products.multiply<T>(Op::none, Op::none, scale, gradients, k, T{0}, d.q.row_block(first, count));
        products.multiply<T>(Op::transpose, Op::none, scale, gradients, q, beta, d.k.row_block(0, keys));
      }
    }
  }
}

#define MATRIXFSDP_INSTANTIATE(T)                                                                                     \
  template void attention_forward<T>(const AttentionShape&, MatrixView<const T>, MatrixView<T>, TensorView<T>,        \
                                     TensorView<T>, Products&);                                                       \
  template void attention_backward<T>(const AttentionShape&, MatrixView<const T>, MatrixView<const T>, TensorView<T>, \
                                      MatrixView<const T>, MatrixView<T>, TensorView<T>, TensorView<T>, Products&);
MATRIXFSDP_INSTANTIATE(float)
MATRIXFSDP_INSTANTIATE(double)
#undef MATRIXFSDP_INSTANTIATE

}  // namespace matrixfsdp::nn

#include <matrixfsdp/nn/embedding.hpp>

#include "nn/column_kernel.hpp"
#include "nn/row_kernel.hpp"

namespace matrixfsdp::nn {

template <class T>
void embedding_forward(TensorView<std::int32_t> ids, MatrixView<const std::type_identity_t<T>> tokens,
                       MatrixView<const std::type_identity_t<T>> positions, std::int64_t sequence_length,
                       MatrixView<std::type_identity_t<T>> y) {
  const std::int32_t* const id = ids.data();
  detail::for_rows(
      "matrixfsdp::nn::embedding", y.rows, KOKKOS_LAMBDA(const detail::Row& row, const std::int64_t r) {
        T* const out = y.data + r * y.stride;
        const T* const token = tokens.data + id[r] * tokens.stride;
        if (positions.data == nullptr) {
          row.for_each(y.cols, [&](std::int64_t i) { out[i] = token[i]; });
        } else {
          const T* const position = positions.data + (r % sequence_length) * positions.stride;
          row.for_each(y.cols, [&](std::int64_t i) { out[i] = token[i] + position[i]; });
        }
      });
}

// A token may occur many times: threads share the columns, never the rows.
template <class T>
void embedding_backward(TensorView<std::int32_t> ids, MatrixView<const std::type_identity_t<T>> dy,
                        std::int64_t sequence_length, MatrixView<std::type_identity_t<T>> tokens_gradient,
                        MatrixView<std::type_identity_t<T>> positions_gradient) {
  const std::int32_t* const id = ids.data();
  detail::for_column_chunks(
      "matrixfsdp::nn::embedding_backward", dy.cols, KOKKOS_LAMBDA(const std::int64_t begin, const std::int64_t end) {
        for (std::int64_t r = 0; r < dy.rows; ++r) {
          const T* const in = dy.data + r * dy.stride;
          if (tokens_gradient.data != nullptr) {
            T* const token = tokens_gradient.data + id[r] * tokens_gradient.stride;
            MATRIXFSDP_NN_INDEPENDENT
            for (std::int64_t i = begin; i < end; ++i)
              token[i] += in[i];
          }
          if (positions_gradient.data != nullptr) {
            T* const position = positions_gradient.data + (r % sequence_length) * positions_gradient.stride;
            MATRIXFSDP_NN_INDEPENDENT
            for (std::int64_t i = begin; i < end; ++i)
              position[i] += in[i];
          }
        }
      });
}

#define MATRIXFSDP_INSTANTIATE(T)                                                                                      \
  template void embedding_forward<T>(TensorView<std::int32_t>, MatrixView<const T>, MatrixView<const T>, std::int64_t, \
                                     MatrixView<T>);                                                                   \
  template void embedding_backward<T>(TensorView<std::int32_t>, MatrixView<const T>, std::int64_t, MatrixView<T>,      \
                                      MatrixView<T>);
MATRIXFSDP_INSTANTIATE(float)
MATRIXFSDP_INSTANTIATE(double)
#undef MATRIXFSDP_INSTANTIATE

}  // namespace matrixfsdp::nn

#include "optim/factored_kernels.hpp"

#include <cmath>

#include "orthogonalize/entries.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp::detail {
namespace {

using ConstMatrix = MatrixView<const float>;
using Matrix = MatrixView<float>;

struct IdentityEntry {
  Matrix matrix;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const { matrix(i, j) = i == j ? 1.0F : 0.0F; }
};

struct ScaleEntry {
  float factor;
  ConstMatrix from;
  Matrix to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const { to(i, j) = factor * from(i, j); }
};

struct AverageEntry {
  float decay;
  float fraction;
  ConstMatrix gradient;
  Matrix average;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    average(i, j) = decay * average(i, j) + fraction * gradient(i, j);
  }
};

struct AverageSquareEntry {
  float decay;
  float fraction;
  ConstMatrix gradient;
  Matrix average;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    average(i, j) = decay * average(i, j) + fraction * (gradient(i, j) * gradient(i, j));
  }
};

struct BlendEntry {
  float decay;
  float fraction;
  float factor;
  ConstMatrix average;
  Matrix gradient;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    gradient(i, j) = factor * (decay * average(i, j) + fraction * gradient(i, j));
  }
};

struct DivideEntry {
  float correction;
  float epsilon;
  ConstMatrix first;
  ConstMatrix second;
  Matrix to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    to(i, j) = first(i, j) / (sqrtf(second(i, j) * correction) + epsilon);
  }
};

struct SubtractEntry {
  float step;
  float decay;
  ConstMatrix update;
  Matrix weight;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    weight(i, j) = (weight(i, j) - step * update(i, j)) * decay;
  }
};

struct GatherRowEntry {
  const int* order;
  ConstMatrix from;
  Matrix to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const { to(i, j) = from(order[i], j); }
};

struct GatherColEntry {
  const int* order;
  ConstMatrix from;
  Matrix to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const { to(i, j) = from(i, order[j]); }
};

template <class Entry>
void run(const char* label, const Matrix& extents, const Entry& entry) {
  for_each_entry(label, extents.rows, extents.cols, entry);
}

}  // namespace

void fill_identity(const Matrix& matrix) {
  run("matrixfsdp::optim::identity", matrix, IdentityEntry{matrix});
}

void scale_into(float factor, const ConstMatrix& from, const Matrix& to) {
  run("matrixfsdp::optim::scale", to, ScaleEntry{factor, from, to});
}

void average_into(float decay, float fraction, const ConstMatrix& gradient, const Matrix& average) {
  run("matrixfsdp::optim::average", average, AverageEntry{decay, fraction, gradient, average});
}

void average_squares_into(float decay, float fraction, const ConstMatrix& gradient, const Matrix& average) {
  run("matrixfsdp::optim::average_squares", average, AverageSquareEntry{decay, fraction, gradient, average});
}

void blend(float decay, float fraction, float factor, const ConstMatrix& average, const Matrix& gradient) {
  run("matrixfsdp::optim::blend", gradient, BlendEntry{decay, fraction, factor, average, gradient});
}

void divide_by_root(float correction, float epsilon, const ConstMatrix& first, const ConstMatrix& second,
                    const Matrix& to) {
  run("matrixfsdp::optim::divide_by_root", to, DivideEntry{correction, epsilon, first, second, to});
}

void subtract_then_decay(float step, float decay, const ConstMatrix& update, const Matrix& weight) {
  run("matrixfsdp::optim::subtract_then_decay", weight, SubtractEntry{step, decay, update, weight});
}

void row_products(const ConstMatrix& a, const ConstMatrix& b, const TensorView<float>& values) {
  float* const result = values.data();
  const ConstMatrix left = a;
  const ConstMatrix right = b;
  for_range(
      "matrixfsdp::optim::row_products", a.rows, KOKKOS_LAMBDA(const std::int64_t i) {
        double sum = 0.0;
        for (std::int64_t j = 0; j < left.cols; ++j)
          sum += static_cast<double>(left(i, j)) * static_cast<double>(right(i, j));
        result[i] = static_cast<float>(sum);
      });
}

void gather_rows(const TensorView<int>& order, const ConstMatrix& from, const Matrix& to) {
  run("matrixfsdp::optim::gather_rows", to, GatherRowEntry{order.data(), from, to});
}

void gather_cols(const TensorView<int>& order, const ConstMatrix& from, const Matrix& to) {
  run("matrixfsdp::optim::gather_cols", to, GatherColEntry{order.data(), from, to});
}

double trace(const ConstMatrix& matrix) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < matrix.rows; ++i)
    sum += static_cast<double>(matrix(i, i));
  return sum;
}

}  // namespace matrixfsdp::detail

#include "baselines/sharded_iteration.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/plan/row_shards.hpp>
#include <matrixfsdp/plan/strategy.hpp>

#include "orthogonalize/entries.hpp"
#include "orthogonalize/normalize.hpp"

namespace matrixfsdp::baselines {
namespace {

using linalg::gemm;
using linalg::Op;

template <class T>
void grow(Tensor<T>& tensor, const char* label, std::int64_t count) {
  if (static_cast<std::int64_t>(tensor.extent(0)) < count) tensor = make_tensor<T>(label, count);
}

struct CopyEntry {
  MatrixView<const float> from;
  MatrixView<float> to;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t col) const { to(row, col) = from(row, col); }
};

void copy(const MatrixView<float>& from, const MatrixView<float>& to) {
  matrixfsdp::detail::for_each_entry("matrixfsdp::baselines::copy", to.rows, to.cols, CopyEntry{from, to});
  Kokkos::fence();
}

struct CombineEntry {
  MatrixView<float> x;
  MatrixView<const float> y;
  float a;
  float b;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t row, std::int64_t col) const {
    x(row, col) = a * x(row, col) + b * y(row, col);
  }
};

/// x <- a x + b y
void combine(float a, const MatrixView<float>& x, float b, const MatrixView<float>& y) {
  matrixfsdp::detail::for_each_entry("matrixfsdp::baselines::combine", x.rows, x.cols, CombineEntry{x, y, a, b});
  Kokkos::fence();
}

/// s <- ((g_0 + g_1) + ...), with g_mine in `sum` and the others, by rank, in `arrived`.
void sum_by_rank(const TensorView<float>& sum, const TensorView<float>& arrived, int mine, int ranks) {
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  const auto count = static_cast<std::int64_t>(sum.size());
  float* const s = sum.data();
  const float* const others = arrived.data();
  Kokkos::parallel_for(
      "matrixfsdp::baselines::sum_by_rank", Policy(0, count), KOKKOS_LAMBDA(const std::int64_t i) {
        const float own = s[i];
        float total = mine == 0 ? own : others[i];
        for (int rank = 1; rank < ranks; ++rank)
          total += rank == mine ? own : others[(rank < mine ? rank : rank - 1) * count + i];
        s[i] = total;
      });
  Kokkos::fence();
}

MatrixView<float> matrix(const Tensor<float>& tensor, std::int64_t rows, std::int64_t cols) {
  return {tensor.data(), rows, cols};
}

}  // namespace

ShardedIteration::ShardedIteration(Communicator& communicator, const NewtonSchulzOptions& options,
                                   CollectiveAlgorithm algorithm)
    : communicator_(communicator), options_(options), tables_(communicator, algorithm) {
  if (options_.coefficients == nullptr) options_.coefficients = &quintic_sequence("polar-express");
}

std::int64_t ShardedIteration::most_rows(std::int64_t rows) const {
  return row_chunk(rows, 0, communicator_.size()).size();
}

const Quintic& ShardedIteration::coefficients(int step) const {
  return options_.coefficients->at(step);
}

void ShardedIteration::reserve(std::int64_t rows, std::int64_t cols) {
  const int ranks = communicator_.size();
  const std::int64_t here = row_chunk(rows, communicator_.rank(), ranks).size();
  grow(product_, "rows of a product", here * cols);
  grow(sums_, "sums of squares", square_sum_blocks(here, cols));
  if (rows <= cols) {
    grow(gathered_, "gathered matrix", rows * cols);
    grow(factor_, "rows of X X^T", here * rows);
    grow(sums_, "sums of squares", square_sum_blocks(rows, cols));
    return;
  }
  grow(gram_, "X^T X", cols * cols);
  if (squares_gram(cols, most_rows(rows))) grow(square_, "(X^T X)^2", cols * cols);
  grow(arriving_, "chunks of X^T X", (ranks - 1) * fold_chunk(cols * cols, communicator_.rank(), ranks).size());
}

std::int64_t ShardedIteration::bytes() const {
  std::size_t elements = 0;
  for (const Tensor<float>* tensor : {&gathered_, &factor_, &product_, &gram_, &square_, &arriving_})
    elements += tensor->size();
  return static_cast<std::int64_t>(elements * sizeof(float) + sums_.size() * sizeof(double));
}

bool ShardedIteration::run(const MatrixView<float>& mine, std::int64_t rows, const std::string& name,
                           std::int64_t& flops) {
  name_ = name;
  reserve(rows, mine.cols);
  const bool wide = rows <= mine.cols;
  const Status status = wide ? normalize_wide(mine, rows) : normalize_tall(mine);
  if (status == Status::non_finite) return false;
  if (status == Status::zero) {
    if (mine.rows > 0) matrixfsdp::detail::fill_zero<float>(mine);
    return true;
  }
  if (wide)
    run_wide(mine, rows, flops);
  else
    run_tall(mine, rows, flops);
  return !has_diverged(mine, rows);
}

void ShardedIteration::gather_rows(std::int64_t rows, std::int64_t cols) {
  gather_in_place(communicator_, Purpose::optimizer, tables_.rows(rows, cols), slice(gathered_, 0, rows * cols),
                  {"gather of rows", name_, "step"})
      .wait();
}

/// Every rank has the whole matrix then, and sees the same norm.
ShardedIteration::Status ShardedIteration::normalize_wide(const MatrixView<float>& mine, std::int64_t rows) {
  const MatrixView<float> x = matrix(gathered_, rows, mine.cols);
  copy(mine, x.row_block(row_chunk(rows, communicator_.rank(), communicator_.size()).begin, mine.rows));
  gather_rows(rows, mine.cols);
  const auto normalization = matrixfsdp::detail::measure<float>(x, sums_);
  if (!normalization.finite) return Status::non_finite;
  if (normalization.zero) return Status::zero;
  matrixfsdp::detail::normalize<float>(x, normalization, x);
  return Status::go_on;
}

void ShardedIteration::run_wide(const MatrixView<float>& mine, std::int64_t rows, std::int64_t& flops) {
  const MatrixView<float> x = matrix(gathered_, rows, mine.cols);
  const MatrixView<float> own =
      x.row_block(row_chunk(rows, communicator_.rank(), communicator_.size()).begin, mine.rows);
  const MatrixView<float> a = matrix(factor_, mine.rows, rows);
  const MatrixView<float> y = matrix(product_, mine.rows, mine.cols);
  for (int step = 0; step < options_.steps; ++step) {
    const Quintic& p = coefficients(step);
    if (step > 0) gather_rows(rows, mine.cols);
    if (mine.rows == 0) continue;
    gemm<float>(Op::none, Op::transpose, 1, own, x, 0, a);
    gemm<float>(Op::none, Op::none, 1, a, x, 0, y);
    gemm<float>(Op::none, Op::transpose, static_cast<float>(p.c), y, x, static_cast<float>(p.b), a);
    copy(own, y);
    gemm<float>(Op::none, Op::none, 1, a, x, static_cast<float>(p.a), y);
    copy(y, step + 1 < options_.steps ? own : mine);
  }
  flops += sharded_newton_schulz_flops(rows, mine.cols, mine.rows, most_rows(rows), options_.steps);
}

/// The norm is the sum of all ranks', in rank order.
ShardedIteration::Status ShardedIteration::normalize_tall(const MatrixView<float>& mine) {
  double square = 0;
  if (mine.rows > 0) {
    const auto here = matrixfsdp::detail::measure<float>(mine, sums_);
    if (!here.finite)
      square = std::numeric_limits<double>::infinity();
    else if (!here.zero)
      square = 1.0 / (here.inverse_norm * here.inverse_norm);
  }
  double total = 0;
  for (const double one : all_gather_value(communicator_, Purpose::optimizer, square, {"norm", name_, "step"}))
    total += one;
  if (!std::isfinite(total)) return Status::non_finite;
  if (total == 0) return Status::zero;
  matrixfsdp::detail::Normalization normalization;
  normalization.inverse_norm = 1.0 / std::sqrt(total);
  if (mine.rows > 0) matrixfsdp::detail::normalize<float>(mine, normalization, mine);
  return Status::go_on;
}

/// Sum over ranks: each sums its chunk, then all get the chunks.
void ShardedIteration::sum_gram(std::int64_t cols) {
  const int ranks = communicator_.size();
  const int rank = communicator_.rank();
  const std::int64_t size = cols * cols;
  const Interval own = fold_chunk(size, rank, ranks);
  std::vector<PeerElements<const float>> sends;
  std::vector<PeerElements<float>> receives;
  for (int i = 1; i < ranks; ++i) {
    const int peer = (rank + i) % ranks;
    const Interval theirs = fold_chunk(size, peer, ranks);
    sends.push_back({peer, slice(gram_, theirs.begin, theirs.size())});
    receives.push_back({peer, slice(arriving_, (peer < rank ? peer : peer - 1) * own.size(), own.size())});
  }
  redistribute(communicator_, Purpose::optimizer, sends, receives, {"sum of X^T X", name_, "step"},
               tables_.message())
      .wait();
  sum_by_rank(slice(gram_, own.begin, own.size()), slice(arriving_, 0, (ranks - 1) * own.size()), rank, ranks);
  gather_in_place(communicator_, Purpose::optimizer, tables_.chunks(size), slice(gram_, 0, size),
                  {"gather of X^T X", name_, "step"})
      .wait();
}

void ShardedIteration::run_tall(const MatrixView<float>& mine, std::int64_t rows, std::int64_t& flops) {
  const std::int64_t cols = mine.cols;
  const MatrixView<float> g = matrix(gram_, cols, cols);
  const MatrixView<float> y = matrix(product_, mine.rows, cols);
  const bool squares = squares_gram(cols, most_rows(rows));
  for (int step = 0; step < options_.steps; ++step) {
    const Quintic& p = coefficients(step);
    const auto b = static_cast<float>(p.b);
    const auto c = static_cast<float>(p.c);
    if (mine.rows > 0)
      linalg::syrk<float>(Op::transpose, 1, mine, 0, g);
    else
      matrixfsdp::detail::fill_zero<float>(g);
    sum_gram(cols);
    if (squares) {
      const MatrixView<float> q = matrix(square_, cols, cols);
      copy(g, q);
      linalg::syrk<float>(Op::none, c, g, b, q);
      if (mine.rows == 0) continue;
      copy(mine, y);
      gemm<float>(Op::none, Op::none, 1, mine, q, static_cast<float>(p.a), y);
      copy(y, mine);
    } else if (mine.rows > 0) {
      gemm<float>(Op::none, Op::none, 1, mine, g, 0, y);
      combine(static_cast<float>(p.a), mine, b, y);
      gemm<float>(Op::none, Op::none, c, y, g, 1, mine);
    }
  }
  flops += sharded_newton_schulz_flops(rows, cols, mine.rows, most_rows(rows), options_.steps);
}

/// As orthogonalize: the whole matrix has a norm of about sqrt(m), so no rank's rows have more.
bool ShardedIteration::has_diverged(const MatrixView<float>& mine, std::int64_t rows) const {
  if (mine.rows == 0) return false;
  const auto here = matrixfsdp::detail::measure<float>(mine, sums_);
  const auto smaller = static_cast<double>(std::min(rows, mine.cols));
  return !here.finite || (!here.zero && 1.0 > 4.0 * std::sqrt(smaller) * here.inverse_norm);
}

}  // namespace matrixfsdp::baselines

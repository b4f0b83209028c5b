#include "linalg/shared_products.hpp"

#include <algorithm>
#include <cmath>

#include "linalg/triangle_blocks.hpp"

namespace matrixfsdp::linalg::detail {
namespace {

// About 10 ms of one core: waking a thread and packing an operand again are small beside it.
constexpr std::int64_t piece_flops = std::int64_t{1} << 30;
constexpr std::int64_t smallest_piece = 128;  // rows or columns of a result
constexpr std::int64_t most_pieces = 64;
constexpr std::int64_t cache_line = 16;  // elements of 4 bytes

struct Extent {
  std::int64_t begin;
  std::int64_t count;
};

std::int64_t whole_lines(double end, std::int64_t extent) {
  return std::min<std::int64_t>(extent, std::llround(end / static_cast<double>(cache_line)) * cache_line);
}

/// The `piece`-th of `pieces` equal parts.
Extent equal_part(std::int64_t extent, std::int64_t piece, std::int64_t pieces) {
  const auto boundary = [&](std::int64_t i) {
    return i == pieces ? extent
                       : whole_lines(static_cast<double>(extent) * static_cast<double>(i) / static_cast<double>(pieces),
                                     extent);
  };
  return {boundary(piece), boundary(piece + 1) - boundary(piece)};
}

/// Of the rows of a lower triangle: parts of equal area.
Extent triangle_part(std::int64_t extent, std::int64_t piece, std::int64_t pieces) {
  const auto boundary = [&](std::int64_t i) {
    return i == pieces ? extent
                       : whole_lines(static_cast<double>(extent) *
                                         std::sqrt(static_cast<double>(i) / static_cast<double>(pieces)),
                                     extent);
  };
  return {boundary(piece), boundary(piece + 1) - boundary(piece)};
}

/// visit(block) for blocks of the symmetric product, those that are worth it cut into strips of rows.
template <class Visit>
void for_each_strip(std::int64_t extent, const Visit& visit) {
  for_each_triangle_block(0, extent, [&](const TriangleBlock& block) {
    const std::int64_t strips = piece_count(2 * block.rows * block.cols * extent, block.rows);
    for (std::int64_t strip = 0; strip < strips; ++strip) {
      const Extent rows = equal_part(block.rows, strip, strips);
      visit(TriangleBlock{block.row + rows.begin, block.col, rows.count, block.cols});
    }
  });
}

}  // namespace

std::int64_t piece_count(std::int64_t flops, std::int64_t extent) {
  return std::clamp<std::int64_t>(std::min({flops / piece_flops, extent / smallest_piece, most_pieces}), 1,
                                  most_pieces);
}

template <class T>
void shared_gemm(Workers& workers, MatrixView<const std::type_identity_t<T>> a,
                 MatrixView<const std::type_identity_t<T>> b, MatrixView<std::type_identity_t<T>> c) {
  const bool by_rows = c.rows > c.cols;
  const std::int64_t longest = by_rows ? c.rows : c.cols;
  const std::int64_t pieces = piece_count(2 * c.rows * c.cols * a.cols, longest);
  workers.share(pieces, [&](std::int64_t piece) {
    const auto [begin, count] = equal_part(longest, piece, pieces);
    if (by_rows) {
      gemm<T>(Op::none, Op::none, T{1}, a.row_block(begin, count), b, T{0}, c.row_block(begin, count));
    } else {
      gemm<T>(Op::none, Op::none, T{1}, a, b.col_block(begin, count), T{0}, c.col_block(begin, count));
    }
  });
}

template <class T>
void shared_syrk_lower(Workers& workers, Op op_a, MatrixView<const std::type_identity_t<T>> a,
                       MatrixView<std::type_identity_t<T>> c) {
  const bool plain = op_a == Op::none;
  const std::int64_t pieces = piece_count(c.rows * c.rows * (plain ? a.cols : a.rows), c.rows);
  const auto part = [&](std::int64_t begin, std::int64_t count) {
    return plain ? a.row_block(begin, count) : a.col_block(begin, count);
  };
  workers.share(pieces, [&](std::int64_t piece) {
    const auto [begin, count] = triangle_part(c.rows, piece, pieces);
    const MatrixView<T> rows = c.row_block(begin, count);
    gemm<T>(op_a, plain ? Op::transpose : Op::none, T{1}, part(begin, count), part(0, begin), T{0},
            rows.col_block(0, begin));
    syrk_lower<T>(op_a, T{1}, part(begin, count), T{0}, rows.col_block(begin, count));
  });
}

template <class T>
void shared_symmetric_product(Workers& workers, MatrixView<const std::type_identity_t<T>> a,
                              MatrixView<const std::type_identity_t<T>> b, MatrixView<std::type_identity_t<T>> c) {
  if (piece_count(c.rows * c.rows * c.rows, c.rows) == 1) {
    symmetric_product<T>(a, b, c);
    return;
  }
  std::int64_t strips = 0;
  for_each_strip(c.rows, [&](const TriangleBlock&) { ++strips; });
  workers.share(strips, [&](std::int64_t wanted) {
    std::int64_t strip = 0;
    for_each_strip(c.rows, [&](const TriangleBlock& block) {
      if (strip++ != wanted) return;
      gemm<T>(Op::none, Op::none, T{1}, a.row_block(block.row, block.rows), b.col_block(block.col, block.cols), T{0},
              c.row_block(block.row, block.rows).col_block(block.col, block.cols));
    });
  });
  mirror<T>(c);
}

template void shared_gemm<float>(Workers&, MatrixView<const float>, MatrixView<const float>, MatrixView<float>);
template void shared_gemm<double>(Workers&, MatrixView<const double>, MatrixView<const double>, MatrixView<double>);
template void shared_syrk_lower<float>(Workers&, Op, MatrixView<const float>, MatrixView<float>);
template void shared_syrk_lower<double>(Workers&, Op, MatrixView<const double>, MatrixView<double>);
template void shared_symmetric_product<float>(Workers&, MatrixView<const float>, MatrixView<const float>,
                                              MatrixView<float>);
template void shared_symmetric_product<double>(Workers&, MatrixView<const double>, MatrixView<const double>,
                                               MatrixView<double>);

}  // namespace matrixfsdp::linalg::detail

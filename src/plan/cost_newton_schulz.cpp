#include <algorithm>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/cost.hpp>

namespace matrixfsdp {
namespace {

// Up to 2^62 elements and any number of steps: products do not fit 64 bits before they are checked.
__extension__ typedef __int128 Wide;

// Steps after which `gram` computes X <- Q X and starts again from the new X, because rounding errors of R grow.
constexpr int restart_after = 2;

// Diagonal squares of a symmetric product up to this extent are computed in full.
constexpr std::int64_t smallest_diagonal = 96;

/// Entries of a symmetric m x m product that are computed: the lower left quarter, and of the two diagonal halves the
/// same again (linalg::symmetric_product). At each depth there are squares of two extents, e and e + 1.
Wide triangle_entries(std::int64_t m) {
  Wide entries = 0;
  std::int64_t extent = m;
  Wide count = 1;
  Wide count_of_next = 0;  // of extent + 1
  while (count + count_of_next > 0) {
    if (extent <= smallest_diagonal) {
      entries += count * extent * extent;
      count = 0;
    }
    if (extent + 1 <= smallest_diagonal) {
      entries += count_of_next * (extent + 1) * (extent + 1);
      count_of_next = 0;
    }
    const std::int64_t half = extent / 2;
    const bool odd = extent % 2 != 0;
    entries += count * half * (extent - half) + count_of_next * ((extent + 1) / 2) * (half + 1);
    // e = 2 h: h and h, e + 1: h and h + 1. e = 2 h + 1: h and h + 1, e + 1: h + 1 and h + 1.
    const Wide halves = odd ? count : 2 * count + count_of_next;
    count_of_next = odd ? count + 2 * count_of_next : count_of_next;
    count = halves;
    extent = half;
  }
  return entries;
}

/// Products of the iteration on X of m x n, m <= n; a multiply-add is 2 FLOPs. Element-wise work is not counted.
struct Products {
  Products(std::int64_t rows, std::int64_t cols, DType dtype, bool batched) {
    const Wide m = std::min(rows, cols);
    const Wide n = std::max(rows, cols);
    gram = m * (m + 1) * n;
    square = m * (m + 1) * m;
    small = 2 * m * triangle_entries(std::min(rows, cols));
    apply = 2 * m * m * n;
    if (dtype == DType::bfloat16) {
      gram = small / m * n;
      square = small;
    }
    if (batched) {
      gram = apply;
      square = small = 2 * m * m * m;
    }
  }

  Wide gram;    ///< X X^T: one triangle (syrk)
  Wide square;  ///< A A with A symmetric = A A^T: one triangle (syrk)
  Wide small;   ///< of two m x m polynomials of one symmetric matrix: about one triangle (linalg::symmetric_product)
  Wide apply;   ///< m x m times m x n (gemm)
};

/// steps x ( A = X X^T;  B = b A + c A^2;  X <- a X + B X )
Wide standard(const Products& flops, Wide steps) {
  return steps * (flops.gram + flops.square + flops.apply);
}

/// R = X X^T, Q = I;  steps x ( Z = b R + c R^2;  Q <- a Q + Q Z;  RZ = a R + R Z;  R <- a RZ + Z RZ );  X <- Q X
/// where the first step needs no product for Q, and the last one no new R.
Wide gram_run(const Products& flops, Wide steps) {
  return flops.gram + steps * flops.square + (steps - 1) * (flops.small + 2 * flops.small) + flops.apply;
}

}  // namespace

std::int64_t newton_schulz_flops(std::int64_t rows, std::int64_t cols, int steps, NewtonSchulzAlgorithm algorithm,
                                 DType dtype, bool batched) {
  if (rows < 0 || cols < 0 || steps < 1) {
    throw ContractError(
        fmt::format("newton_schulz_flops of {} x {} in {} steps: expected extents of at least 0 and at least 1 step",
                    rows, cols, steps));
  }
  const NewtonSchulzAlgorithm resolved = resolve(algorithm, rows, cols, steps, dtype);
  if (dtype == DType::bfloat16 && resolved != NewtonSchulzAlgorithm::standard) {
    throw ContractError(fmt::format("newton_schulz_flops: {} in bfloat16, expected standard", name_of(algorithm)));
  }
  if (rows == 0 || cols == 0) return 0;
  const Products products(rows, cols, dtype, batched);
  Wide flops = 0;
  switch (resolved) {
    case NewtonSchulzAlgorithm::gram:
      flops = steps > restart_after ? gram_run(products, restart_after) + gram_run(products, steps - restart_after)
                                    : gram_run(products, steps);
      break;
    case NewtonSchulzAlgorithm::gram_no_restart:
      flops = gram_run(products, steps);
      break;
    default:
      flops = standard(products, steps);
  }
  if (flops > Wide{1} << 62) {
    throw InputError(
        fmt::format("matrix of {} x {}: {} Newton-Schulz steps need more than 2^62 FLOPs", rows, cols, steps));
  }
  return static_cast<std::int64_t>(flops);
}

std::int64_t square_sum_blocks(std::int64_t rows, std::int64_t cols) {
  if (rows <= 0 || cols <= 0) return 0;
  const std::int64_t rows_per_block = std::max<std::int64_t>(1, square_sum_entries / cols);
  const std::int64_t cols_per_block = std::min(cols, square_sum_entries);
  const std::int64_t blocks_per_row = (cols + cols_per_block - 1) / cols_per_block;
  return (rows + rows_per_block - 1) / rows_per_block * blocks_per_row;
}

void NewtonSchulzScratch::include(const NewtonSchulzScratch& other) {
  iterate = std::max(iterate, other.iterate);
  products = std::max(products, other.products);
  sums = std::max(sums, other.sums);
  rounded = std::max(rounded, other.rounded);
  slots = std::max(slots, other.slots);
}

std::int64_t NewtonSchulzScratch::bytes() const {
  return 4 * (iterate + products) + 8 * sums + 2 * rounded + newton_schulz_slot_bytes * slots;
}

NewtonSchulzScratch newton_schulz_scratch(std::int64_t rows, std::int64_t cols, NewtonSchulzAlgorithm algorithm,
                                          int steps, DType dtype, std::int64_t slots) {
  const std::int64_t small = std::min(rows, cols);
  if (dtype == DType::bfloat16) {
    const NewtonSchulzScratch one{0, small * small, square_sum_blocks(rows, cols), 2 * (rows * cols + small * small)};
    if (slots == 1) return one;
    return {slots * rows * cols, slots * one.products, slots * one.sums, slots * one.rounded, slots};
  }
  const std::int64_t count = resolve(algorithm, rows, cols, steps) == NewtonSchulzAlgorithm::standard ? 2 : 4;
  const NewtonSchulzScratch one{rows * cols, count * small * small, square_sum_blocks(rows, cols), 0};
  if (slots == 1) return one;
  return {2 * slots * one.iterate, slots * one.products, slots * one.sums, 0, slots};
}

std::int64_t newton_schulz_batch(std::int64_t rows, std::int64_t cols, int steps, NewtonSchulzAlgorithm algorithm,
                                 DType dtype) {
  if (rows < 0 || cols < 0 || steps < 1) {
    throw ContractError(
        fmt::format("newton_schulz_batch of {} x {} in {} steps: expected extents of at least 0 and at least 1 step",
                    rows, cols, steps));
  }
  constexpr std::int64_t tile = 128;
  const std::int64_t small = std::min(rows, cols);
  // Extents first: what follows does not fit 64 bits for all of them.
  if (small == 0 || rows > newton_schulz_batch_bytes / cols) return 1;
  const std::int64_t tiles = (small + tile - 1) / tile;
  const NewtonSchulzScratch two = newton_schulz_scratch(rows, cols, algorithm, steps, dtype, 2);
  return std::max<std::int64_t>(
      1, std::min(newton_schulz_batch_tiles / (tiles * tiles), 2 * newton_schulz_batch_bytes / two.bytes()));
}

}  // namespace matrixfsdp

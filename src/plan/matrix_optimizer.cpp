#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/cost.hpp>
#include <matrixfsdp/plan/matrix_optimizer.hpp>

namespace matrixfsdp {
namespace {

// Extents up to 2^31 and more: products do not fit 64 bits before they are checked.
__extension__ typedef __int128 Wide;

constexpr std::array<std::pair<MatrixOptimizer, std::string_view>, 4> optimizers{{{MatrixOptimizer::muon, "muon"},
                                                                                  {MatrixOptimizer::shampoo, "shampoo"},
                                                                                  {MatrixOptimizer::soap, "soap"},
                                                                                  {MatrixOptimizer::adamw, "adamw"}}};
constexpr std::array<std::pair<Grafting, std::string_view>, 3> graftings{
    {{Grafting::none, "none"}, {Grafting::sgd, "sgd"}, {Grafting::adam, "adam"}}};

constexpr std::int64_t qr_columns = 64;  // as linalg::DecompositionScratch has it

Wide triangle_product(Wide m, Wide n) {
  return m * (m + 1) * n;
}

std::int64_t checked(Wide flops, std::int64_t rows, std::int64_t cols) {
  if (flops > Wide{1} << 62) {
    throw InputError(fmt::format("matrix of {} x {}: a step with its factors needs more than 2^62 FLOPs", rows, cols));
  }
  return static_cast<std::int64_t>(flops);
}

[[noreturn]] void refuse(MatrixOptimizer optimizer) {
  throw ContractError(fmt::format("{}: it has no factors, expected shampoo or soap", name_of(optimizer)));
}

/// `part` in tiles of at most `size` rows and columns.
void add_tiles(const MatrixPart& part, std::int64_t size, std::vector<MatrixPart>& blocks) {
  for (std::int64_t row = 0; row < part.rows; row += size) {
    for (std::int64_t col = 0; col < part.cols; col += size) {
      blocks.push_back({part.offset + row * part.stride + col, std::min(size, part.rows - row),
                        std::min(size, part.cols - col), part.stride, part.name});
    }
  }
}

}  // namespace

const std::vector<MatrixOptimizer>& matrix_optimizers() {
  static const std::vector<MatrixOptimizer> all = [] {
    std::vector<MatrixOptimizer> made;
    for (const auto& [optimizer, name] : optimizers)
      made.push_back(optimizer);
    return made;
  }();
  return all;
}

MatrixOptimizer parse_matrix_optimizer(std::string_view name) {
  for (const auto& [optimizer, text] : optimizers) {
    if (text == name) return optimizer;
  }
  throw InputError(fmt::format("optimizer '{}': expected muon, shampoo, soap or adamw", name));
}

std::string_view name_of(MatrixOptimizer optimizer) {
  for (const auto& [value, text] : optimizers) {
    if (value == optimizer) return text;
  }
  throw ContractError(fmt::format("optimizer {}: expected one of the enumeration's", static_cast<int>(optimizer)));
}

Grafting parse_grafting(std::string_view name) {
  for (const auto& [grafting, text] : graftings) {
    if (text == name) return grafting;
  }
  throw InputError(fmt::format("grafting '{}': expected none, sgd or adam", name));
}

std::string_view name_of(Grafting grafting) {
  for (const auto& [value, text] : graftings) {
    if (value == grafting) return text;
  }
  throw ContractError(fmt::format("grafting {}: expected one of the enumeration's", static_cast<int>(grafting)));
}

void validate(const PreconditionerCost& cost) {
  if (cost.frequency < 1)
    throw InputError(fmt::format("preconditioner frequency {}: expected at least 1", cost.frequency));
  const auto check = [](std::string_view field, std::int64_t value) {
    if (value < 1 || value > most_factor_extent)
      throw InputError(fmt::format("preconditioner {} {}: expected 1 to {}", field, value, most_factor_extent));
  };
  check("block size", cost.block_size);
  check("dimension", cost.largest_dimension);
}

std::vector<MatrixPart> preconditioned_blocks(const ParameterSpec& parameter, MatrixOptimizer optimizer,
                                              const PreconditionerCost& cost) {
  std::vector<MatrixPart> parts = matrix_parts(parameter);
  if (optimizer != MatrixOptimizer::shampoo) return parts;
  std::vector<MatrixPart> blocks;
  for (const MatrixPart& part : parts)
    add_tiles(part, cost.block_size, blocks);
  return blocks;
}

FactorElements factor_elements(const std::vector<MatrixPart>& blocks) {
  FactorElements elements;
  for (const MatrixPart& block : blocks) {
    elements.left += block.rows * block.rows;
    elements.right += block.cols * block.cols;
  }
  return elements;
}

PreconditionerFlops preconditioner_flops(std::int64_t rows, std::int64_t cols, MatrixOptimizer optimizer,
                                         const PreconditionerCost& cost) {
  const Wide m = rows;
  const Wide n = cols;
  const Wide factors = triangle_product(m, n) + triangle_product(n, m);
  const Wide both_sides = 2 * m * n * (m + n);
  if (optimizer == MatrixOptimizer::shampoo) {
    const Wide by_element = (cost.grafting == Grafting::adam ? 16 : 8) * m * n;
    const auto root = [](Wide k) { return 9 * k * k * k + triangle_product(k, k); };
    return {checked(factors + both_sides + by_element, rows, cols), checked(root(m) + root(n), rows, cols)};
  }
  if (optimizer != MatrixOptimizer::soap) refuse(optimizer);
  const auto basis = [](Wide k) { return 2 * k * k * k + 2 * k * k + 8 * k * k * k / 3; };
  return {checked(factors + 2 * both_sides + 14 * m * n, rows, cols),
          checked(basis(m) + basis(n) + 2 * both_sides, rows, cols)};
}

void PreconditionerScratch::include(const PreconditionerScratch& other) {
  matrices = std::max(matrices, other.matrices);
  squares = std::max(squares, other.squares);
  values = std::max(values, other.values);
  order = std::max(order, other.order);
  reals = std::max(reals, other.reals);
  integers = std::max(integers, other.integers);
  sums = std::max(sums, other.sums);
}

PreconditionerScratch preconditioner_scratch(const ParameterSpec& parameter, MatrixOptimizer optimizer,
                                             const PreconditionerCost& cost) {
  const bool shampoo = optimizer == MatrixOptimizer::shampoo;
  if (!shampoo && optimizer != MatrixOptimizer::soap) refuse(optimizer);
  PreconditionerScratch scratch;
  for (const MatrixPart& block : preconditioned_blocks(parameter, optimizer, cost)) {
    const std::int64_t k = std::max(block.rows, block.cols);
    PreconditionerScratch one;
    one.matrices = (shampoo ? 2 : 3) * block.rows * block.cols;
    one.squares = (shampoo ? 1 : 2) * k * k;
    one.values = k;
    one.order = shampoo ? 0 : k;
    one.reals = k > 1 ? 1 + 6 * k + 2 * k * k : 1;
    one.integers = k > 1 ? 3 + 5 * k : 1;
    if (!shampoo) one.reals = std::max(one.reals, k + qr_columns * k);
    one.sums =
        std::max(square_sum_blocks(1, element_count(parameter.shape)), square_sum_blocks(block.rows, block.cols));
    scratch.include(one);
  }
  return scratch;
}

}  // namespace matrixfsdp

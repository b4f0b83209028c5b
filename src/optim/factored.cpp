#include "optim/factored.hpp"

#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "optim/factored_kernels.hpp"
#include "orthogonalize/normalize.hpp"

namespace matrixfsdp::detail {
namespace {

std::vector<std::int64_t> sizes_of(Squares::Side side, const std::vector<std::vector<Block>>& blocks) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(blocks.size());
  for (const std::vector<Block>& of_view : blocks) {
    std::int64_t size = 0;
    for (const Block& block : of_view) {
      const std::int64_t extent = side == Squares::Side::left ? block.part.rows : block.part.cols;
      size += extent * extent;
    }
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace

std::vector<std::vector<Block>> blocks_of(const std::vector<ParameterView>& views, MatrixOptimizer optimizer,
                                          const PreconditionerCost& cost) {
  std::vector<std::vector<Block>> all;
  for (const ParameterView& view : views) {
    std::vector<Block>& blocks = all.emplace_back();
    std::int64_t left = 0;
    std::int64_t right = 0;
    for (MatrixPart& part : preconditioned_blocks(*view.spec, optimizer, cost)) {
      const std::int64_t rows = part.rows;
      const std::int64_t cols = part.cols;
      blocks.push_back({std::move(part), left, right});
      left += rows * rows;
      right += cols * cols;
    }
  }
  return all;
}

Squares::Squares(const char* label, Side side, const std::vector<std::vector<Block>>& blocks)
    : side_(side), state_(label, sizes_of(side, blocks)) {}

MatrixView<float> Squares::at(std::size_t index, const Block& block) const {
  const std::int64_t extent = side_ == Side::left ? block.part.rows : block.part.cols;
  return {state_[index].data() + (side_ == Side::left ? block.left : block.right), extent, extent};
}

void Squares::fill_identity(std::size_t index, const std::vector<Block>& blocks) const {
  for (const Block& block : blocks)
    detail::fill_identity(at(index, block));
}

void Squares::fill_zero(std::size_t index) const {
  const TensorView<float> all = state_[index];
  detail::fill_zero<float>({all.data(), 1, static_cast<std::int64_t>(all.extent(0))});
}

StateView Squares::view(std::size_t index, const std::vector<Block>& blocks, const char* name,
                        const char* optimizer) const {
  const TensorView<float> values = state_[index];
  Shape shape{static_cast<std::int64_t>(values.extent(0))};
  if (blocks.size() == 1) {
    const std::int64_t extent = at(index, blocks.front()).rows;
    shape = {extent, extent};
  }
  return {index, name, values, optimizer, shape};
}

FactorSide::FactorSide(Squares::Side side, const std::vector<std::vector<Block>>& blocks)
    : factors("matrixfsdp::optim::factors", side, blocks), made("matrixfsdp::optim::factors_made", side, blocks) {}

State make_counters(const std::vector<ParameterView>& views, std::int64_t count) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(views.size());
  for (const ParameterView& view : views)
    sizes.push_back(view.elements.empty() ? 0 : count);
  return {"matrixfsdp::optim::counters", sizes};
}

StateView counters_view(std::size_t index, const TensorView<float>& counters, const char* optimizer) {
  return {index, "counters", counters, optimizer, Shape{static_cast<std::int64_t>(counters.extent(0))}};
}

void add_to_factors(double decay, double weight, const MatrixView<const float>& gradient, const MatrixView<float>& left,
                    const MatrixView<float>& right) {
  const auto alpha = static_cast<float>(weight);
  const auto beta = static_cast<float>(decay);
  linalg::syrk<float>(linalg::Op::none, alpha, gradient, beta, left);
  linalg::syrk<float>(linalg::Op::transpose, alpha, gradient, beta, right);
}

void require_positive(double value, std::string_view optimizer, std::string_view option) {
  require_at_least(0.0, value, optimizer, option);
  if (static_cast<float>(value) == 0.0F)
    throw InputError(fmt::format("{}: {} is 0 in float32, expected more", optimizer, option));
}

}  // namespace matrixfsdp::detail

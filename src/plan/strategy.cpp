#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/row_shards.hpp>
#include <matrixfsdp/plan/strategy.hpp>

namespace matrixfsdp {
namespace {

struct Entry {
  StrategyKind kind;
  std::string_view name;
  std::string_view summary;
};

constexpr Entry entries[] = {
    {StrategyKind::matrix_fsdp, "matrix-fsdp", "whole matrices on owners; the optimizer step sends nothing"},
    {StrategyKind::fsdp2, "fsdp2",
     "even row shards as in PyTorch's FSDP2; each Newton-Schulz step gathers the matrix (sharded tensors)"},
    {StrategyKind::fsdp2_gather, "fsdp2-gather",
     "even row shards; each matrix is gathered once per step, and every rank orthogonalizes it"},
    {StrategyKind::fsdp2_alltoall, "fsdp2-alltoall",
     "even row shards; each matrix goes to one rank, is orthogonalized there, and its rows return (as in Dion)"},
    {StrategyKind::zero1_owner, "zero1-owner", "weights on every rank; owners step, then send the new weights to all"},
    {StrategyKind::ddp, "ddp", "everything on every rank"},
};

const Entry& entry_of(StrategyKind kind) {
  for (const Entry& entry : entries) {
    if (entry.kind == kind) return entry;
  }
  throw ContractError(fmt::format("strategy {}: expected one of the enumeration's", static_cast<int>(kind)));
}

}  // namespace

const std::vector<StrategyKind>& strategy_kinds() {
  static const std::vector<StrategyKind> kinds = [] {
    std::vector<StrategyKind> all;
    for (const Entry& entry : entries)
      all.push_back(entry.kind);
    return all;
  }();
  return kinds;
}

StrategyKind parse_strategy(std::string_view name) {
  std::string known;
  for (const Entry& entry : entries) {
    if (entry.name == name) return entry.kind;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", entry.name);
  }
  throw InputError(fmt::format("strategy '{}': expected one of {}", name, known));
}

std::string_view name_of(StrategyKind kind) {
  return entry_of(kind).name;
}

std::string_view summary_of(StrategyKind kind) {
  return entry_of(kind).summary;
}

bool has_row_shards(StrategyKind kind) {
  return kind == StrategyKind::fsdp2 || kind == StrategyKind::fsdp2_gather || kind == StrategyKind::fsdp2_alltoall;
}

bool supports(StrategyKind kind, MatrixOptimizer optimizer) {
  const bool has_factors = optimizer == MatrixOptimizer::shampoo || optimizer == MatrixOptimizer::soap;
  return !has_factors || !has_row_shards(kind);
}

void require_supported(StrategyKind kind, MatrixOptimizer optimizer) {
  if (supports(kind, optimizer)) return;
  std::string able;
  for (const Entry& entry : entries) {
    if (supports(entry.kind, optimizer)) able += fmt::format("{}{}", able.empty() ? "" : ", ", entry.name);
  }
  throw InputError(fmt::format("strategy {} with optimizer {}: its ranks hold rows of matrices, expected one of {}",
                               name_of(kind), name_of(optimizer), able));
}

Plan make_strategy_plan(StrategyKind kind, const ModelSpec& model, int world_size, const PlannerOptions& planner) {
  if (has_row_shards(kind)) return make_row_plan(model, world_size);
  if (kind == StrategyKind::ddp) return make_replicated_plan(model, world_size);
  return make_plan(model, world_size, planner);
}

}  // namespace matrixfsdp

#pragma once

#include <string>
#include <vector>

#include <matrixfsdp/plan/time_model.hpp>

/// The published figures, and the models that they are of.
namespace matrixfsdp::bench {

/// Milliseconds of a step's optimizer, and of all of it.
struct PaperStep {
  int nodes = 1;  ///< of 8 ranks
  int blocks = 0;
  double stock_step = 0;
  double matrix_step = 0;
  double stock_total = 0;
  double matrix_total = 0;
};
std::vector<PaperStep> paper_steps();

/// The first so many rows of paper_steps are what rates are fitted to.
inline constexpr std::size_t paper_calibration_rows = 2;

inline constexpr int paper_memory_ranks = 64;

/// Milliseconds of a whole step of 64 blocks on 64 ranks, with owners as one policy places them.
struct PaperPolicy {
  std::string policy;
  double total = 0;
};
std::vector<PaperPolicy> paper_policies();

/// The same with a padded all-gather of matrices instead of owners' segments: the published ablation.
inline constexpr double paper_padded_total = 18079;

/// Bytes that a rank needs at most.
struct PaperMemory {
  std::string model;
  StrategyKind strategy = StrategyKind::matrix_fsdp;
  double bytes = 0;
};
std::vector<PaperMemory> paper_memory();

/// A model, and one pass of one sequence of 4096 tokens with recomputation.
struct PaperModel {
  ModelSpec spec;
  PassWork pass;
};

/// Blocks of four h x h and two h x 4h matrices, h = 4096, and nothing else: the sizes that are told leave no room.
PaperModel reference_model(int blocks);

/// Whether embedding and head are a unit that is whole on every rank, with its gradient, from forward to backward, as
/// this library's runtime has them, or each rank has its part of them and no more.
enum class Tables { whole, sharded };

/// "1.7B", "4B", "8B", "14B", "32B": told by their size alone, and taken to be the Qwen 3 models of these sizes;
/// "4.3B": 20 blocks of the reference model with embedding and head for 32000 tokens. Throws ContractError for another
/// name.
PaperModel sized_model(const std::string& name, Tables tables);

/// bfloat16 parameters, gradients and momentum, recomputation, standard Newton-Schulz.
StepOptions paper_options(const PaperModel& model, int newton_schulz_steps);

}  // namespace matrixfsdp::bench

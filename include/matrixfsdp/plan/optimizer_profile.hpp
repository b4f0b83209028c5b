#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/plan.hpp>

/// @file
/// What the optimizer's matrices took in a run, rank by rank: the planner's figures where FLOPs do not tell, as on
/// ranks of different speed.
namespace matrixfsdp {

/// Matrices whose steps do the same work.
struct MatrixWork {
  std::int64_t rows = 0;   ///< of all matrices of a batch
  std::int64_t cols = 0;   ///< of each matrix
  std::int64_t parts = 1;  ///< that are orthogonalized one by one (matrix_parts)

  /// By rows, columns, parts: an order for maps.
  friend auto operator<=>(const MatrixWork&, const MatrixWork&) = default;
};

/// Throws as matrix_parts.
MatrixWork matrix_work(const ParameterSpec& parameter);

/// Steps of one rank on matrices of one kind.
struct MeasuredWork {
  int rank = 0;            ///< of those that share the matrices
  MatrixWork work;         ///< the kind of matrix
  std::int64_t steps = 0;  ///< of single matrices, in all
  double seconds = 0;      ///< of one of them, on average
};

/// What the ranks of one run took for their matrices.
struct OptimizerProfile {
  int world_size = 1;                  ///< ranks that share the matrices
  std::vector<MeasuredWork> measured;  ///< one for each rank and kind of matrix that it stepped
};

/// Throws InputError that names the figure, its value and what was expected unless there is a measurement, ranks are
/// those of world_size, extents, parts and steps are at least 1, and seconds are finite and positive.
void validate(const OptimizerProfile& profile);

/// A profile's figures taken apart: seconds(rank, work) = slowness(rank) x seconds(work), the best fit of it to the
/// logarithms (least squares, one measurement for each rank and work). The mean of all measured ranks' logarithms of
/// slowness is 0. Ranks that had no matrix are as slow as the mean; so are, together, ranks that share no work with the
/// others, where nothing can tell.
struct MeasuredCosts {
  std::map<MatrixWork, double> seconds;  ///< of one matrix on a rank as slow as the mean
  std::vector<double> slowness;          ///< per rank
};

/// Throws as validate.
MeasuredCosts measured_costs(const OptimizerProfile& profile);

/// Seconds of one matrix's step. Throws InputError for one of a kind that was not measured: the parameter, and what
/// was.
double measured_seconds(const MeasuredCosts& costs, const ParameterSpec& parameter);

/// Seconds of each rank's matrices in one step of `plan`; ranks of another number than were measured are all as slow
/// as the mean. Throws as measured_seconds does, and ContractError for a replicated plan.
std::vector<double> measured_rank_seconds(const ModelSpec& model, const Plan& plan, const MeasuredCosts& costs);

}  // namespace matrixfsdp

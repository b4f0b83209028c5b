#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/optimizer_profile.hpp>

namespace matrixfsdp {
namespace {

struct Mean {
  double sum = 0;
  std::int64_t count = 0;

  void add(double value) {
    sum += value;
    ++count;
  }
  [[nodiscard]] double value() const { return count > 0 ? sum / static_cast<double>(count) : 0; }
};

/// Logarithms of what is to be found: measurement = work + rank.
struct Fit {
  std::map<MatrixWork, double> work;
  std::vector<double> rank;

  /// One round of coordinate descent on the squared error; returns the largest change of a rank.
  double improve(const OptimizerProfile& profile) {
    std::map<MatrixWork, Mean> works;
    for (const MeasuredWork& one : profile.measured)
      works[one.work].add(std::log(one.seconds) - rank[static_cast<std::size_t>(one.rank)]);
    for (const auto& [kind, mean] : works)
      work[kind] = mean.value();
    std::vector<Mean> ranks(rank.size());
    for (const MeasuredWork& one : profile.measured)
      ranks[static_cast<std::size_t>(one.rank)].add(std::log(one.seconds) - work[one.work]);
    double change = 0;
    for (std::size_t r = 0; r < rank.size(); ++r) {
      change = std::max(change, std::abs(ranks[r].value() - rank[r]));
      rank[r] = ranks[r].value();
    }
    return change;
  }

  /// Slowness is relative: the measured ranks' mean becomes 0.
  void center(const OptimizerProfile& profile) {
    std::vector<bool> measured(rank.size(), false);
    for (const MeasuredWork& one : profile.measured)
      measured[static_cast<std::size_t>(one.rank)] = true;
    Mean mean;
    for (std::size_t r = 0; r < rank.size(); ++r) {
      if (measured[r]) mean.add(rank[r]);
    }
    for (std::size_t r = 0; r < rank.size(); ++r) {
      if (measured[r]) rank[r] -= mean.value();
    }
    for (auto& [kind, seconds] : work)
      seconds += mean.value();
  }
};

std::string shown(const MatrixWork& work) {
  return fmt::format("{} x {} in {} part{}", work.rows, work.cols, work.parts, work.parts == 1 ? "" : "s");
}

}  // namespace

MatrixWork matrix_work(const ParameterSpec& parameter) {
  const MatrixExtents extents = matrix_extents(parameter.shape);
  return {extents.batch * extents.rows, extents.cols, static_cast<std::int64_t>(matrix_parts(parameter).size())};
}

void validate(const OptimizerProfile& profile) {
  if (profile.world_size < 1)
    throw InputError(fmt::format("optimizer profile: world_size {}: expected at least 1", profile.world_size));
  if (profile.measured.empty()) throw InputError("optimizer profile: 0 measurements: expected at least 1");
  for (const MeasuredWork& one : profile.measured) {
    if (one.rank < 0 || one.rank >= profile.world_size) {
      throw InputError(fmt::format("optimizer profile: rank {}: expected 0 to {}", one.rank, profile.world_size - 1));
    }
    const std::int64_t least = std::min({one.work.rows, one.work.cols, one.work.parts, one.steps});
    if (least < 1) {
      throw InputError(fmt::format("optimizer profile: {} steps of {} on rank {}: expected numbers of at least 1",
                                   one.steps, shown(one.work), one.rank));
    }
    if (!std::isfinite(one.seconds) || one.seconds <= 0) {
      throw InputError(fmt::format("optimizer profile: {} seconds of {} on rank {}: expected a finite number above 0",
                                   one.seconds, shown(one.work), one.rank));
    }
  }
}

MeasuredCosts measured_costs(const OptimizerProfile& profile) {
  validate(profile);
  Fit fit;
  fit.rank.assign(static_cast<std::size_t>(profile.world_size), 0.0);
  constexpr int most_rounds = 1000;
  for (int round = 0; round < most_rounds && fit.improve(profile) > 1e-12; ++round) {
  }
  fit.center(profile);
  MeasuredCosts costs;
  for (const auto& [work, seconds] : fit.work)
    costs.seconds[work] = std::exp(seconds);
  for (const double logarithm : fit.rank)
    costs.slowness.push_back(std::exp(logarithm));
  return costs;
}

double measured_seconds(const MeasuredCosts& costs, const ParameterSpec& parameter) {
  const MatrixWork work = matrix_work(parameter);
  const auto found = costs.seconds.find(work);
  if (found != costs.seconds.end()) return found->second;
  std::string known;
  for (const auto& entry : costs.seconds)
    known += (known.empty() ? "" : ", ") + shown(entry.first);
  throw InputError(
      fmt::format("optimizer profile: parameter '{}' is {}, expected a matrix like those that were "
                  "measured: {}",
                  parameter.name, shown(work), known));
}

std::vector<double> measured_rank_seconds(const ModelSpec& model, const Plan& plan, const MeasuredCosts& costs) {
  std::vector<double> seconds(static_cast<std::size_t>(plan.world_size), 0.0);
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const std::vector<ParameterSpec>& parameters = model.units[u].parameters;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (kind_of(parameters[p]) != ParameterKind::matrix || parameters[p].frozen) continue;
      seconds[static_cast<std::size_t>(plan.owner(u, p))] += measured_seconds(costs, parameters[p]);
    }
  }
  if (costs.slowness.size() == seconds.size()) {
    for (std::size_t r = 0; r < seconds.size(); ++r)
      seconds[r] *= costs.slowness[r];
  }
  return seconds;
}

}  // namespace matrixfsdp

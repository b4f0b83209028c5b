#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/optim/health.hpp>

namespace matrixfsdp::train {

/// Collective: what the owners have measured, sent to rank 0 alone (Purpose::health). There a list with an object for
/// each matrix (each part of a fused one), in canonical order; null elsewhere. NaN is null.
nlohmann::json gather_health(ShardedModel& model, const HealthProbe& probe);

/// What made a step fail, and where.
struct Failure {
  int rank = 0;
  NonFinite what;
};

/// Collective, after a step that failed (Purpose::health): every rank's, on every rank. Of ranks that hold the same,
/// the first one's.
std::vector<Failure> gather_failures(ShardedModel& model, const std::vector<NonFinite>& mine);

nlohmann::json to_json(const std::vector<Failure>& failures);
/// "gradient of block.1.mlp.up on rank 1 (12 values are not finite), ...", the first few; without any "every gradient
/// and weight is finite".
std::string to_text(const std::vector<Failure>& failures);

}  // namespace matrixfsdp::train

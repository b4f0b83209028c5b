#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <matrixfsdp/comm/session.hpp>

namespace matrixfsdp::bench {

/// Median, minimum and maximum of repeated measurements.
struct Spread {
  double median = 0;
  double minimum = 0;
  double maximum = 0;
};

/// Throws ContractError for no values.
Spread spread_of(std::vector<double> values);

/// {"median","minimum","maximum"}.
nlohmann::json to_json(const Spread& spread);

/// Processor, cores, ranks, Kokkos, MPI, BLAS: what a figure belongs to.
nlohmann::json environment(Session& session);

/// {"benchmark","environment","rows"} on standard output as JSON, or the rows as a table with `columns` of them.
void print(const std::string& benchmark, Session& session, const nlohmann::json& rows,
           const std::vector<std::string>& columns, bool json);

/// `mfsdp-bench train-step`: whole training steps of each strategy, interleaved, beside the rate of sgemm in the same
/// run.
struct TrainStepOptions {
  std::string model = "gpt2:124m";
  std::int64_t sequence_length = 256;
  std::int64_t micro_batch = 4;
  std::int64_t passes = 1;  ///< per step and rank
  std::string optimizer = "muon";
  std::vector<std::string> strategies = {"matrix-fsdp"};
  bool recompute = false;
  std::int64_t rounds = 5;
  int threads = 1;
  bool json = false;
};
int train_step(Session& session, const TrainStepOptions& options);

}  // namespace matrixfsdp::bench

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

/// A figure as tables show it: the median of a Spread, "-" for none.
std::string cell(const nlohmann::json& value);

/// Collective: the slowest rank's figure, the same on all ranks.
double slowest(Communicator& communicator, double mine);

/// Share of the time that transfers were under way in which the rank did not wait for them; 1 without any.
double hidden_share(double under_way, double waited);

/// Processor, cores, ranks, Kokkos, MPI, BLAS: what a figure belongs to.
nlohmann::json environment(Session& session);

/// {"benchmark","environment","rows"} on standard output as JSON, or the rows as a table with `columns` of them.
void print(const std::string& benchmark, Session& session, const nlohmann::json& rows,
           const std::vector<std::string>& columns, bool json);

}  // namespace matrixfsdp::bench

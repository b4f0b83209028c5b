#pragma once

#include <nlohmann/json.hpp>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/machine.hpp>
#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/topology.hpp>

namespace matrixfsdp::bench {

/// FLOP/s of orthogonalize, on all ranks at the same time, over one matrix of each shape that `model` has, weighted by
/// how many there are, until the slowest rank has done as much as all others. 0 without matrices. Collective.
double orthogonalize_rate(Communicator& communicator, const ModelSpec& model, int steps);

/// Bytes read and written in a second by copies on all ranks at the same time; of the slowest rank. Collective.
double memory_rate(Communicator& communicator);

/// Seconds that a gather takes longer between two products than after another gather; of the slowest rank, of `links`'
/// fastest algorithm. Collective.
double arrival_seconds(Communicator& communicator, const Topology& topology, const CollectiveProfile& links);

/// FLOP/s of one large product of this rank: m x k by k x n, a number of times over at least 0.2 s.
double product_rate(std::int64_t m, std::int64_t n, std::int64_t k);

/// What a rank reaches, in a second.
struct RankRates {
  double product_flops = 1;
  double orthogonalize_flops = 1;
  double memory_bytes = 1;
};

/// This job as the time model sees it: links as calibrated, rates as measured.
Machine machine_of(const Topology& topology, const CollectiveProfile& profile, const RankRates& rates);

/// kernel_gflops, link_mb_per_second (between nodes, where there are several), and kflop_per_byte, their quotient.
nlohmann::json balance_of(const Machine& machine);

}  // namespace matrixfsdp::bench

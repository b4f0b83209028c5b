#pragma once

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/machine.hpp>
#include <matrixfsdp/plan/model_spec.hpp>
#include <matrixfsdp/plan/topology.hpp>

namespace matrixfsdp::bench {

/// FLOP/s of orthogonalize, on all ranks at the same time, over one matrix of each shape that `model` has, weighted by
/// how many there are; of the slowest rank. 0 without matrices. Collective.
double orthogonalize_rate(Communicator& communicator, const ModelSpec& model, int steps);

/// Bytes read and written in a second by copies on all ranks at the same time; of the slowest rank. Collective.
double memory_rate(Communicator& communicator);

/// This job as the time model sees it: links as calibrated, rates as measured.
Machine machine_of(const Topology& topology, const CollectiveProfile& profile, double orthogonalize_rate,
                   double memory_rate);

}  // namespace matrixfsdp::bench

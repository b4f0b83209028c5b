#pragma once

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

namespace matrixfsdp {

/// Measures the links between the ranks of `communicator` by its own gathers, in about two seconds: chains and all to
/// all in groups of a few ranks, inside nodes and between them, all groups at the same time; medians of several rounds.
/// `topology` is that of the communicator (mpi::topology_of). Collective; every rank returns the same figures. Bytes
/// count as Purpose::other. Throws ContractError for a topology of another size, and CommunicationError at the
/// communicator's deadline, and where a message fails.
CollectiveProfile calibrate(Communicator& communicator, const Topology& topology);

}  // namespace matrixfsdp

#pragma once

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

namespace matrixfsdp {

/// Measures the links between the ranks of `communicator` by its own gathers, in about two seconds: chains and all to
/// all in groups of a few ranks, inside nodes and between them, all groups at the same time; of several rounds the
/// quick ones. Then, how far what each algorithm takes is from what those links predict: means of rounds, without the
/// slowest, in which unshard and reduce of even tables and those of one owner take turns, from 64 KiB to 4 MiB or what
/// takes 0.3 s, in some six seconds in the memory of a machine of two cores and half a minute at 200 Mbit/s.
/// `topology` is that of the communicator (mpi::topology_of).
/// Collective; every rank returns the same figures. Bytes of the links count as Purpose::other, those of the algorithms
/// are not counted. Throws ContractError for a topology of another size, and CommunicationError at the communicator's
/// deadline, and where a message fails.
CollectiveProfile calibrate(Communicator& communicator, const Topology& topology);

}  // namespace matrixfsdp

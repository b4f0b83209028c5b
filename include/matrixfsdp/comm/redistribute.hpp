#pragma once

#include <vector>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

namespace matrixfsdp {

/// Elements for, or from, another rank.
template <class T>
struct PeerElements {
  int peer = 0;          ///< rank of the communicator
  TensorView<T> values;  ///< where they are, or where they arrive
};

/// All-to-all of what differs from pair to pair: every rank sends what `sends` lists and receives what `receives`
/// lists; between two ranks in that order, and of equal sizes on both sides. Nothing is copied: the elements live, and
/// those that are sent do not change, until the request is complete. By point-to-point MPI, in messages of at most
/// `message` elements, the same on all ranks (message_elements). Collective: a rank without any calls it too. Throws
/// ContractError for a peer that is this rank or none of the communicator's, and CommunicationError as every operation
/// does.
Request redistribute(Communicator& communicator, Purpose purpose, const std::vector<PeerElements<const float>>& sends,
                     const std::vector<PeerElements<float>>& receives, const OperationLabel& label,
                     std::int64_t message = link_block);

}  // namespace matrixfsdp

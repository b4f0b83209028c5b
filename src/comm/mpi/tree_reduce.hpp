#pragma once

#include <memory>

#include "comm/mpi/exchange.hpp"
#include "comm/mpi/reduce_position.hpp"

namespace matrixfsdp::mpi {

/// A pass by CollectiveAlgorithm::tree. Copies what it needs of `reduce`.
std::shared_ptr<Exchange> tree_reduce(const std::shared_ptr<Channel>& channel, const Reduce& reduce, Pass pass,
                                      const ReduceMemory& memory);

}  // namespace matrixfsdp::mpi

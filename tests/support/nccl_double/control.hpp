#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nccl.h>

/// A host double of the NCCL and CUDA-runtime functions that src/comm/nccl calls, with the real headers, for tests
/// without a device: what runs on a stream is put off, and carried out at random by later calls, data going between
/// processes through shared memory. It models what the documentation promises and no more: one stream for each
/// communicator, non-blocking communicators, up to eight ranks on one machine. What the documentation forbids is
/// refused with an error code, and told by take_misuses().
///
/// Chance comes from MATRIXFSDP_NCCL_DOUBLE_SEED; where it is not set each process draws a seed and prints it.
/// MATRIXFSDP_NCCL_DOUBLE_ONE_DEVICE gives a whole program Faults::one_device.
namespace matrixfsdp::nccl_double {

/// What a test makes go wrong; the default is nothing.
struct Faults {
  bool init_never_ends = false;     ///< this process never joins a communicator
  bool one_device = false;          ///< every process has the same device
  bool no_device = false;           ///< cudaGetDevice fails
  bool unreachable_memory = false;  ///< the device cannot reach any memory
  bool stuck_groups = false;        ///< NCCL's work never gets on, until it is aborted
  bool moves_no_data = false;       ///< sizes are compared, memory is not touched: for sizes that no machine has
};
Faults& faults();

/// Communicators of this process report `error` from now on.
void inject(ncclResult_t error);

/// What has been done against the rules since the last call.
std::vector<std::string> take_misuses();

/// What has been made and not destroyed.
struct Alive {
  std::size_t streams;
  std::size_t events;
  std::size_t communicators;
};
Alive alive();

/// Operations carried out so far: ncclSend, ncclRecv, ncclBroadcast, each counted where it was called.
struct Calls {
  std::size_t sends = 0;
  std::size_t receives = 0;
  std::size_t broadcasts = 0;
  std::size_t longest_group = 0;
  std::size_t most_elements = 0;  ///< of one call
};
Calls take_calls();

}  // namespace matrixfsdp::nccl_double

#pragma once

#include <functional>
#include <string>

namespace matrixfsdp {

/// Value of an environment variable; null where it is not set.
using Environment = std::function<const char*(const char*)>;

/// What is wrong between the number of processes that SLURM started and MPI's world size; empty where nothing is.
///
/// A launcher whose PMI does not fit the MPI library makes every process rank 0 of 1 (spack#11925), so one rank beside
/// more tasks is always refused. Another difference counts only inside an srun step that no mpiexec has started
/// ranks in: hydra and Open MPI start their own daemons through srun, one per node.
std::string launcher_mismatch(int world_size, const Environment& environment);

}  // namespace matrixfsdp

#include "comm/launcher.hpp"

#include <cstdlib>

#include <fmt/format.h>

namespace matrixfsdp {

std::string launcher_mismatch(int world_size, const Environment& environment) {
  const bool in_step = environment("SLURM_STEP_ID") != nullptr || environment("SLURM_PROCID") != nullptr;
  const bool by_mpiexec = environment("MPI_LOCALNRANKS") != nullptr || environment("OMPI_COMM_WORLD_SIZE") != nullptr;
  const char* name = "SLURM_STEP_NUM_TASKS";
  if (environment(name) == nullptr) name = "SLURM_NTASKS";
  const char* value = environment(name);
  if (value == nullptr) return {};
  const long tasks = std::strtol(value, nullptr, 10);
  const bool alone = world_size == 1 && tasks > 1;
  const bool differs = in_step && !by_mpiexec && tasks > 0 && tasks != world_size;
  if (!alone && !differs) return {};
  return fmt::format(
      "world size {}: {} says {} tasks; expected as many ranks, so the PMI of the launcher does not fit this MPI "
      "(try srun --mpi=pmi2, or mpiexec; to run {} on purpose, unset {})",
      world_size, name, tasks, world_size == 1 ? "one process" : "so many", name);
}

}  // namespace matrixfsdp

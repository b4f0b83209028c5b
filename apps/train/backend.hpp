#pragma once

#include <string>
#include <string_view>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/nccl.hpp>

namespace matrixfsdp::train {

/// What carries the segments of units.
enum class Backend {
  automatic,  ///< NCCL where it can, else MPI
  mpi,
  nccl,  ///< an error where it cannot
};

/// "auto", "mpi", "nccl".
std::string_view name_of(Backend backend);

/// Throws InputError, which lists the names, for any other one.
Backend parse_backend(const std::string& name);

/// mpi::parse_gpu_aware, whose InputError names --gpu-aware-mpi.
mpi::GpuAware parse_gpu_aware_mpi(const std::string& name);

/// Collective. What carries gather and reduce of `communicator` as long as the result lives; its description is for the
/// log. Throws InputError with the reason, the same on all ranks, where NCCL is asked for and cannot; else as
/// nccl::attach does.
nccl::Attachment attach_backend(Communicator& communicator, Backend backend);

}  // namespace matrixfsdp::train

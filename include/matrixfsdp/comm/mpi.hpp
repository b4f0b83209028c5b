#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <mpi.h>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective_model.hpp>
#include <matrixfsdp/plan/topology.hpp>

/// @file
/// The factory's name says who owns the MPI communicator. All of them throw ContractError where MPI is not running or
/// `comm` is MPI_COMM_NULL, and CommunicationError where MPI fails. A communicator that is made here, not adopted, has
/// MPI_ERRORS_RETURN.
namespace matrixfsdp::mpi {

/// Uses `comm` as it is, without communication; the caller keeps it alive and keeps its own messages off it, and adopts
/// it once at a time. Its error handler stays: with MPI_ERRORS_RETURN a failure of MPI becomes a CommunicationError,
/// otherwise MPI ends the job.
Communicator adopt(MPI_Comm comm);

/// Uses a duplicate of `comm` (MPI_Comm_idup), and frees it. Collective over `comm`. Throws CommunicationError when not
/// every rank has come within `deadline`, which is that of this call: the result starts with the default.
Communicator duplicate(MPI_Comm comm, std::chrono::milliseconds deadline = std::chrono::seconds(300));

/// Splits `comm` by `color`, ordered by `key`, and frees the part. Collective over `comm`. A data-parallel group inside
/// a larger mesh. Throws ContractError for color < 0. MPI has no non-blocking split: all ranks meet within `deadline`
/// first (CommunicationError), then MPI_Comm_split blocks for as long as it takes. The result starts with the default
/// deadline.
Communicator split(MPI_Comm comm, int color, int key, std::chrono::milliseconds deadline = std::chrono::seconds(300));

/// Over the ranks of `communicator`, with its deadline, also for this call: messages and byte counts of its own.
/// Collective.
Communicator duplicate(const Communicator& communicator);

/// Whether MPI is given addresses of tensors, or of copies in host memory that we make and take back. Tensors on
/// devices are unified memory (tensor/tensor.hpp), which the host reads too; but a library that registers what it is
/// given with a network adapter, and does not know of devices, must not be given it.
enum class GpuAware {
  automatic,  ///< addresses of tensors, unless they are on a device and the library does not say that it knows devices
  on,         ///< addresses of tensors
  off,        ///< copies
};

/// "auto", "on", "off". Throws InputError for any other name.
GpuAware parse_gpu_aware(std::string_view name);
/// Inverse. Throws ContractError for a value outside of the enumeration.
std::string_view name_of(GpuAware gpu_aware);

/// For what is issued from now on, on this rank alone; automatic before. What duplicate makes of a Communicator starts
/// like it. Bits and byte counts are the same. Copies take as much memory as there are messages under way; of
/// `allgatherv`, a unit.
void set_gpu_aware(Communicator& communicator, GpuAware gpu_aware);

/// Whether copies are made.
bool stages_messages(const Communicator& communicator);

/// Which ranks of `communicator` share a node's memory (MPI_COMM_TYPE_SHARED). Collective; all ranks meet within the
/// communicator's deadline first, then MPI_Comm_split_type blocks for as long as it takes.
Topology topology_of(Communicator& communicator);

/// "MPICH 4.0.2": the library that this process runs with. May be called before MPI is started.
std::string library_description();

}  // namespace matrixfsdp::mpi

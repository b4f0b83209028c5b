#include "apps/train/backend.hpp"

#include <array>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::train {
namespace {

constexpr std::array<std::pair<std::string_view, Backend>, 3> backends{{
    {"auto", Backend::automatic},
    {"mpi", Backend::mpi},
    {"nccl", Backend::nccl},
}};

}  // namespace

std::string_view name_of(Backend backend) {
  for (const auto& [name, value] : backends) {
    if (value == backend) return name;
  }
  throw ContractError(fmt::format("backend {}: expected one of the enumeration", static_cast<int>(backend)));
}

Backend parse_backend(const std::string& name) {
  for (const auto& [known, value] : backends) {
    if (known == name) return value;
  }
  throw InputError(fmt::format("--backend '{}': expected one of auto, mpi, nccl", name));
}

mpi::GpuAware parse_gpu_aware_mpi(const std::string& name) {
  try {
    return mpi::parse_gpu_aware(name);
  } catch (const InputError& error) {
    throw InputError(fmt::format("--gpu-aware-mpi: {}", error.what()));
  }
}

nccl::Attachment attach_backend(Communicator& communicator, Backend backend) {
  if (backend == Backend::mpi) return {nullptr, "segments stay with MPI: --backend mpi"};
  nccl::Attachment attachment = nccl::attach(communicator);
  if (backend == Backend::nccl && !attachment.active())
    throw InputError(fmt::format("--backend 'nccl': {}; expected auto or mpi", attachment.description()));
  return attachment;
}

}  // namespace matrixfsdp::train

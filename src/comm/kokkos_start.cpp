#include "comm/kokkos_start.hpp"

#include <array>
#include <span>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/tensor/tensor.hpp>

#include "comm/devices.hpp"

namespace matrixfsdp {
namespace {

/// Number of visible devices; 0 on host backends.
int device_count() {
#if defined(KOKKOS_ENABLE_CUDA)
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
#elif defined(KOKKOS_ENABLE_HIP)
  int count = 0;
  return hipGetDeviceCount(&count) == hipSuccess ? count : 0;
#else
  return 0;
#endif
}

/// Bus address of the current device, the same for all processes of a node; empty on host backends.
std::string device_address() {
#if defined(KOKKOS_ENABLE_CUDA)
  std::array<char, 64> address{};
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return {};
  if (cudaDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device) != cudaSuccess) return {};
  return address.data();
#elif defined(KOKKOS_ENABLE_HIP)
  std::array<char, 64> address{};
  int device = 0;
  if (hipGetDevice(&device) != hipSuccess) return {};
  if (hipDeviceGetPCIBusId(address.data(), static_cast<int>(address.size()), device) != hipSuccess) return {};
  return address.data();
#else
  return {};
#endif
}

constexpr bool has_device_backend =
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
    true;
#else
    false;
#endif

}  // namespace

void start_kokkos(int threads, int local_rank) {
  if (has_device_backend && device_count() == 0) {
    throw InputError(fmt::format("Kokkos {}: no device is visible to local rank {}: expected at least one",
                                 ExecutionSpace::name(), local_rank));
  }
#if KOKKOS_VERSION >= 30700
  Kokkos::InitializationSettings settings;
  settings.set_num_threads(threads);
  if (has_device_backend) settings.set_device_id(device_of(local_rank, device_count()));
#else
  Kokkos::InitArguments settings;
  settings.num_threads = threads;
  if (has_device_backend) settings.device_id = device_of(local_rank, device_count());
#endif
  Kokkos::initialize(settings);
}

std::string kokkos_description() {
  return fmt::format("Kokkos {}.{}.{} {}", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100,
                     ExecutionSpace::name());
}

std::vector<std::string> devices_of_ranks(Communicator& world, const std::string& node) {
  if (!has_device_backend) return std::vector<std::string>(static_cast<std::size_t>(world.size()));
  const std::string address = device_address();
  const std::string mine = address.empty() ? "" : fmt::format("{} on node {}", address, node);
  const auto all =
      world.all_gather(Purpose::other, std::as_bytes(std::span(mine.data(), mine.size())), {"device check", "", ""});
  std::vector<std::string> devices;
  for (const auto& text : all)
    devices.emplace_back(reinterpret_cast<const char*>(text.data()), text.size());
  return devices;
}

}  // namespace matrixfsdp

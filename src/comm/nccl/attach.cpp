#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/comm/nccl.hpp>
#include <matrixfsdp/core/error.hpp>

#include "comm/backoff.hpp"
#include "comm/nccl/backend.hpp"
#include "comm/nccl/check.hpp"

namespace matrixfsdp::nccl {
namespace {

const OperationLabel label{"attach NCCL", "", ""};

/// What a rank tells the others about its device.
struct DeviceReport {
  std::array<char, 16> uuid{};
  std::array<char, 96> text{};  ///< the device's name, or what is wrong
  int device = -1;              ///< below 0: something is
};

template <std::size_t size>
void set_text(std::array<char, size>& text, const std::string& value) {
  const std::size_t length = std::min(value.size(), size - 1);
  std::memcpy(text.data(), value.data(), length);
  text[length] = '\0';
}

/// A tensor of Kokkos' memory space, as all are that segments are sent from.
void require_reachable_tensors() {
  const Tensor<float> probe = make_tensor<float>("matrixfsdp::nccl_probe", 1);
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, probe.data()), "cudaPointerGetAttributes");
  if (attributes.type == cudaMemoryTypeManaged || attributes.type == cudaMemoryTypeDevice) return;
  throw CommunicationError(fmt::format("no device reaches tensors in {}", MemorySpace::name()));
}

DeviceReport report_device() {
  DeviceReport report;
  try {
    int device = 0;
    cudaDeviceProp properties{};
    check(cudaGetDevice(&device), "cudaGetDevice");
    check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
    require_reachable_tensors();
    std::memcpy(report.uuid.data(), properties.uuid.bytes, report.uuid.size());
    set_text(report.text, properties.name);
    report.device = device;
  } catch (const CommunicationError& error) {
    set_text(report.text, error.what());
  }
  return report;
}

std::string uuid_text(const std::array<char, 16>& uuid) {
  std::string text = "GPU-";
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid[i]));
  }
  return text;
}

/// Why NCCL cannot take these devices, the same on every rank; empty where it can (CASES 67).
std::string obstacle(const std::vector<DeviceReport>& reports) {
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    if (reports[rank].device < 0) return fmt::format("rank {}: {}", rank, reports[rank].text.data());
    for (std::size_t other = 0; other < rank; ++other) {
      if (reports[other].uuid != reports[rank].uuid) continue;
      return fmt::format("ranks {} and {} share device {} ({}): expected one device per rank", other, rank,
                         uuid_text(reports[rank].uuid), reports[rank].text.data());
    }
  }
  return {};
}

/// Of rank 0, on every rank. Where rank 0 has failed, all ranks throw what it says.
ncclUniqueId share_id(Communicator& communicator) {
  struct Shared {
    ncclUniqueId id{};
    std::array<char, 256> error{};
  } shared;
  if (communicator.rank() == 0) {
    try {
      check(ncclGetUniqueId(&shared.id), "ncclGetUniqueId", nullptr);
    } catch (const CommunicationError& error) {
      set_text(shared.error, error.what());
    }
  }
  const auto bytes = communicator.broadcast(Purpose::other, std::as_bytes(std::span(&shared, 1)), 0, label);
  std::memcpy(&shared, bytes.data(), std::min(bytes.size(), sizeof(shared)));
  if (shared.error[0] != '\0') throw CommunicationError(fmt::format("rank 0: attach NCCL: {}", shared.error.data()));
  return shared.id;
}

/// NCCL's communicators are made in the background, so that a rank that never comes is a missed deadline.
ncclComm_t open_communicator(const Communicator& communicator, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  try {
    check(ncclCommInitRankConfig(&comm, communicator.size(), id, communicator.rank(), &config),
          "ncclCommInitRankConfig", nullptr);
    Backoff backoff;
    for (ncclResult_t state = ncclInProgress;;) {
      check(ncclCommGetAsyncError(comm, &state), "ncclCommGetAsyncError", comm);
      check(state, "ncclCommInitRankConfig", comm);
      if (state == ncclSuccess) return comm;
      if (std::chrono::steady_clock::now() - begin > communicator.deadline()) {
        throw CommunicationError(fmt::format("the communicator is not ready after {:.1f} s (deadline)",
                                             std::chrono::duration<double>(communicator.deadline()).count()));
      }
      backoff.pause();
    }
  } catch (const CommunicationError& error) {
    if (comm != nullptr) ncclCommAbort(comm);
    throw CommunicationError(fmt::format("rank {}: attach NCCL: {}", communicator.rank(), error.what()));
  }
}

}  // namespace

Attachment attach(Communicator& communicator, const Options& options) {
  auto& implementation = communicator.implementation();
  if (implementation.segments != nullptr && implementation.segments->attached())
    throw ContractError("attach NCCL: the communicator has an attachment: expected none, or one that was detached");
  if (options.group_operations < 2 || options.group_operations > most_group_operations) {
    throw ContractError(fmt::format("attach NCCL: {} operations in a group: expected 2 to {}", options.group_operations,
                                    most_group_operations));
  }
  const std::string reason = obstacle(all_gather_value(communicator, Purpose::other, report_device(), label));
  if (!reason.empty()) return {nullptr, "segments stay with MPI: " + reason};
  auto engine =
      std::make_shared<Engine>(implementation.channel, open_communicator(communicator, share_id(communicator)));
  communicator.barrier(label);  // a rank that fails from here on does so with all others ready
  auto backend = std::make_shared<Backend>(std::move(engine), options);
  implementation.segments = backend;
  return {std::move(backend), "segments by " + library_description()};
}

}  // namespace matrixfsdp::nccl

#include "support/nccl_double/state.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace matrixfsdp::nccl_double {
namespace {

std::uint64_t seed() {
  const char* given = std::getenv("MATRIXFSDP_NCCL_DOUBLE_SEED");
  if (given != nullptr) return std::strtoull(given, nullptr, 10);
  const std::uint64_t drawn = std::random_device()();
  std::fprintf(stderr, "nccl_double: MATRIXFSDP_NCCL_DOUBLE_SEED=%llu\n", static_cast<unsigned long long>(drawn));
  return drawn;
}

}  // namespace

Device::Device() : chance(seed()) {
  faults.one_device = std::getenv("MATRIXFSDP_NCCL_DOUBLE_ONE_DEVICE") != nullptr;
  streams.push_back(std::make_unique<CUstream_st>());
}

Device& device() {
  static Device only;  // a C interface has nowhere else to keep it
  return only;
}

void Device::turn() {
  for (const auto& comm : communicators)
    go_on(*comm);
  std::vector<CUstream_st*> order;
  for (const auto& stream : streams)
    order.push_back(stream.get());
  std::shuffle(order.begin(), order.end(), chance);
  for (CUstream_st* stream : order) {
    for (std::uint64_t steps = draw(5); steps > 0 && !stream->work.empty(); --steps) {
      Work& next = stream->work.front();
      if (next.delay > 0) {
        --next.delay;
        break;
      }
      if (!next.run()) break;
      stream->work.pop_front();
    }
  }
}

void enqueue(cudaStream_t stream, std::function<bool()> run) {
  stream->work.push_back({device().draw(6), std::move(run)});
}

ncclResult_t misuse(const std::string& what, ncclResult_t code) {
  device().misuses.push_back(what);
  device().last_error = what;
  return code;
}

cudaError_t misuse(const std::string& what, cudaError_t code) {
  device().misuses.push_back(what);
  return code;
}

Faults& faults() {
  return device().faults;
}

void inject(ncclResult_t error) {
  for (const auto& comm : device().communicators) {
    if (comm->phase != ncclComm::Phase::gone) comm->error = error;
  }
  device().last_error = "injected";
}

std::vector<std::string> take_misuses() {
  return std::exchange(device().misuses, {});
}

Alive alive() {
  const auto live = [](const auto& handle) { return handle->alive; };
  const auto& all = device();
  return {
      static_cast<std::size_t>(std::count_if(all.streams.begin() + 1, all.streams.end(), live)),
      static_cast<std::size_t>(std::count_if(all.events.begin(), all.events.end(), live)),
      static_cast<std::size_t>(std::count_if(all.communicators.begin(), all.communicators.end(),
                                             [](const auto& comm) { return comm->phase != ncclComm::Phase::gone; }))};
}

Calls take_calls() {
  return std::exchange(device().calls, {});
}

}  // namespace matrixfsdp::nccl_double

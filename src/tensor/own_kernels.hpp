#pragma once

namespace matrixfsdp::detail {

/// Whether for_range and sum_range do a kernel's work on the calling thread alone.
bool runs_own_kernels() noexcept;

/// While one lives, the calling thread does the work of the kernels that it starts, and does not ask Kokkos: older
/// versions keep scratch for one calling thread only, newer ones let kernels of several threads wait for each other,
/// and tools expect one caller. On a backend whose kernels run on the host; Kokkos' threads have nothing to do then.
class OwnKernels {
 public:
  OwnKernels() noexcept;
  ~OwnKernels();
  OwnKernels(const OwnKernels&) = delete;
  OwnKernels& operator=(const OwnKernels&) = delete;

 private:
  bool before_;
};

}  // namespace matrixfsdp::detail

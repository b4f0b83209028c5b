#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

namespace matrixfsdp::test {

/// Counts what Kokkos allocates while it lives; the tools hook is global, so there is one at a time.
class CountAllocations {
 public:
  CountAllocations() {
    counter() = 0;
    Kokkos::Tools::Experimental::set_allocate_data_callback(
        [](Kokkos::Tools::SpaceHandle, const char*, const void*, std::uint64_t) { ++counter(); });
  }
  ~CountAllocations() { Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr); }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;

  [[nodiscard]] std::int64_t count() const { return counter(); }

 private:
  static std::int64_t& counter() {
    static std::int64_t value = 0;
    return value;
  }
};

}  // namespace matrixfsdp::test

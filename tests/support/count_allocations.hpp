#pragma once

#include <cstdint>

#include <Kokkos_Core.hpp>

namespace matrixfsdp::test {

/// Counts what Kokkos allocates while it lives; the tools hook is global, so there is one at a time.
class CountAllocations {
 public:
  CountAllocations() {
    total() = {};
    Kokkos::Tools::Experimental::set_allocate_data_callback(
        [](Kokkos::Tools::SpaceHandle, const char*, const void*, std::uint64_t bytes) {
          ++total().count;
          total().bytes += static_cast<std::int64_t>(bytes);
          total().held += static_cast<std::int64_t>(bytes);
        });
    Kokkos::Tools::Experimental::set_deallocate_data_callback(
        [](Kokkos::Tools::SpaceHandle, const char*, const void*, std::uint64_t bytes) {
          total().held -= static_cast<std::int64_t>(bytes);
        });
  }
  ~CountAllocations() {
    Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
    Kokkos::Tools::Experimental::set_deallocate_data_callback(nullptr);
  }
  CountAllocations(const CountAllocations&) = delete;
  CountAllocations& operator=(const CountAllocations&) = delete;

  [[nodiscard]] std::int64_t count() const { return total().count; }
  [[nodiscard]] std::int64_t bytes() const { return total().bytes; }
  /// Bytes without those that were freed again.
  [[nodiscard]] std::int64_t held() const { return total().held; }

 private:
  struct Total {
    std::int64_t count = 0;
    std::int64_t bytes = 0;
    std::int64_t held = 0;
  };

  static Total& total() {  // the hook is a plain function pointer
    static Total value;
    return value;
  }
};

}  // namespace matrixfsdp::test

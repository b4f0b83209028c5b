#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <unistd.h>

/// What this process holds of the machine, from /proc.
namespace matrixfsdp::testing {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

/// 0 under a sanitizer, whose allocator keeps what is freed.
inline std::int64_t resident_bytes() {
  if (sanitized) return 0;
  std::int64_t size = 0;
  std::int64_t resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
}

inline std::int64_t open_descriptors() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return static_cast<std::int64_t>(std::distance(begin(entries), end(entries)));
}

}  // namespace matrixfsdp::testing

#include "apps/plan/here.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include <unistd.h>

#include <matrixfsdp/linalg/blas.hpp>

namespace matrixfsdp::apps {
namespace {

constexpr double seconds_of_a_measurement = 0.3;

/// Best of the calls that fit into the time; the first one, which touches memory, does not count.
template <class Call>
double best_seconds(const Call& call) {
  using Clock = std::chrono::steady_clock;
  call();
  const auto start = Clock::now();
  double best = 0;
  for (int calls = 0;
       calls == 0 || std::chrono::duration<double>(Clock::now() - start).count() < seconds_of_a_measurement; ++calls) {
    const auto begin = Clock::now();
    call();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = calls == 0 ? seconds : std::min(best, seconds);
  }
  return std::max(best, 1e-9);
}

using Values = std::vector<float>;

double gemm_rate() {
  constexpr std::int64_t n = 768;
  Values a(n * n, 0.5F);
  Values b(n * n, 0.25F);
  Values c(n * n);
  const double seconds = best_seconds([&] {
    linalg::gemm<float>(linalg::Op::none, linalg::Op::none, 1, {a.data(), n, n}, {b.data(), n, n}, 0, {c.data(), n, n});
  });
  return 2.0 * n * n * n / seconds;
}

/// One step of the standard iteration on m x n: X X^T, its square, and that times X.
double orthogonalize_rate() {
  constexpr std::int64_t m = 512;
  constexpr std::int64_t n = 1024;
  Values x(m * n, 0.01F);
  Values gram(m * m);
  Values square(m * m);
  Values next(m * n);
  const double seconds = best_seconds([&] {
    linalg::syrk<float>(linalg::Op::none, 1, {x.data(), m, n}, 0, {gram.data(), m, m});
    linalg::syrk<float>(linalg::Op::none, 1, {gram.data(), m, m}, 0, {square.data(), m, m});
    linalg::gemm<float>(linalg::Op::none, linalg::Op::none, 1, {square.data(), m, m}, {x.data(), m, n}, 0,
                        {next.data(), m, n});
  });
  return static_cast<double>(m * (m + 1) * n + m * (m + 1) * m + 2 * m * m * n) / seconds;
}

/// Bytes read and written in a second.
double memory_rate() {
  const std::vector<char> source(64 << 20, 1);
  std::vector<char> target(source.size());
  const double seconds = best_seconds([&] { std::memcpy(target.data(), source.data(), source.size()); });
  return 2.0 * static_cast<double>(source.size()) / seconds;
}

double memory_bytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

}  // namespace

Machine measure_here(int ranks) {
  const Kokkos::ScopeGuard kokkos;
  linalg::set_threads(1);
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  const double share = std::min(1.0, cores / ranks);
  const double memory = memory_rate();
  Machine machine;
  machine.name = "here";
  machine.nodes = 1;
  machine.ranks_per_node = ranks;
  // A copy reads and writes; the ranks' copies share the memory. Nothing lies between nodes: as inside.
  machine.inside = {2e-6, memory / 2 * share, memory / 2};
  machine.between = machine.inside;
  machine.gemm_flops_per_second = gemm_rate() * share;
  machine.orthogonalize_flops_per_second = orthogonalize_rate() * share;
  machine.memory_bytes = memory_bytes() / ranks;
  machine.memory_bytes_per_second = memory / ranks;
  return machine;
}

}  // namespace matrixfsdp::apps

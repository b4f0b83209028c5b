#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <matrixfsdp/tensor/tensor.hpp>

/// Kernels that work on whole rows. On a CPU a row belongs to one thread, with vector loops inside; on a GPU to a team
/// of threads. Sums and maxima run over a fixed pattern of lanes, so that their bits depend on the length alone.
namespace matrixfsdp::nn::detail {

inline constexpr bool on_host = std::is_same_v<ExecutionSpace, Kokkos::DefaultHostExecutionSpace>;

// The iterations of the loops below are independent by contract; GCC cannot see that of two pointers.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define MATRIXFSDP_NN_INDEPENDENT _Pragma("GCC ivdep")
#else
#define MATRIXFSDP_NN_INDEPENDENT
#endif

class HostRow {
 public:
  /// f(i) for i in [0, count); no iteration reads what another writes.
  template <class F>
  KOKKOS_INLINE_FUNCTION void for_each(std::int64_t count, const F& f) const {
    MATRIXFSDP_NN_INDEPENDENT
    for (std::int64_t i = 0; i < count; ++i)
      f(i);
  }

  /// Sum of f(i), type T: lanes of T over pieces of a few thousand elements, whose sums are added in double.
  template <class T, class F>
  KOKKOS_INLINE_FUNCTION double sum(std::int64_t count, const F& f) const {
    double total = 0;
    for (std::int64_t begin = 0; begin < count; begin += piece) {
      const std::int64_t end = begin + piece < count ? begin + piece : count;
      T lane[lanes] = {};
      std::int64_t i = begin;
      for (; i + lanes <= end; i += lanes) {
        MATRIXFSDP_NN_INDEPENDENT
        for (int l = 0; l < lanes; ++l)
          lane[l] += f(i + l);
      }
      for (int l = 0; i < end; ++i, ++l)
        lane[l] += f(i);
      for (int width = lanes / 2; width > 0; width /= 2) {
        for (int l = 0; l < width; ++l)
          lane[l] += lane[l + width];
      }
      total += static_cast<double>(lane[0]);
    }
    return total;
  }

  /// Maximum of f(i), at least `lowest`. A NaN may be passed over.
  template <class T, class F>
  KOKKOS_INLINE_FUNCTION T maximum(std::int64_t count, T lowest, const F& f) const {
    T lane[lanes];
    for (int l = 0; l < lanes; ++l)
      lane[l] = lowest;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      for (int l = 0; l < lanes; ++l) {
        const T value = f(i + l);
        lane[l] = lane[l] < value ? value : lane[l];
      }
    }
    for (int l = 0; i < count; ++i, ++l) {
      const T value = f(i);
      lane[l] = lane[l] < value ? value : lane[l];
    }
    for (int width = lanes / 2; width > 0; width /= 2) {
      for (int l = 0; l < width; ++l)
        lane[l] = lane[l] < lane[l + width] ? lane[l + width] : lane[l];
    }
    return lane[0];
  }

  /// f() once for the row.
  template <class F>
  KOKKOS_INLINE_FUNCTION void once(const F& f) const {
    f();
  }

 private:
  static constexpr int lanes = 32;
  static constexpr std::int64_t piece = 4096;
};

class TeamRow {
 public:
  using Member = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  KOKKOS_INLINE_FUNCTION explicit TeamRow(const Member& member) : member_(member) {}

  template <class F>
  KOKKOS_INLINE_FUNCTION void for_each(std::int64_t count, const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamVectorRange(member_, count), f);
    member_.team_barrier();
  }

  template <class T, class F>
  KOKKOS_INLINE_FUNCTION double sum(std::int64_t count, const F& f) const {
    double total = 0;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member_, count),
        [&](const std::int64_t i, double& partial) { partial += static_cast<double>(f(i)); }, total);
    member_.team_barrier();
    return total;
  }

  template <class T, class F>
  KOKKOS_INLINE_FUNCTION T maximum(std::int64_t count, T lowest, const F& f) const {
    T result = lowest;
    Kokkos::parallel_reduce(
        Kokkos::TeamVectorRange(member_, count),
        [&](const std::int64_t i, T& partial) {
          const T value = f(i);
          partial = partial < value ? value : partial;
        },
        Kokkos::Max<T>(result));
    member_.team_barrier();
    return result > lowest ? result : lowest;
  }

  template <class F>
  KOKKOS_INLINE_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerTeam(member_), f);
    member_.team_barrier();
  }

 private:
  const Member& member_;
};

using Row = std::conditional_t<on_host, HostRow, TeamRow>;

template <class F>
struct RowFunctor {
  F f;
  KOKKOS_INLINE_FUNCTION void operator()(const std::int64_t index) const { f(HostRow(), index); }
  KOKKOS_INLINE_FUNCTION void operator()(const typename TeamRow::Member& member) const {
    f(TeamRow(member), static_cast<std::int64_t>(member.league_rank()));
  }
};

/// f(row, index) for index in [0, rows), where f is a KOKKOS_LAMBDA(const Row&, std::int64_t). Complete at return.
template <class F>
void for_rows(const std::string& label, std::int64_t rows, const F& f) {
  if constexpr (on_host) {
    const RowFunctor<F> functor{f};
    Kokkos::parallel_for(label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(0, rows), functor);
  } else {
    const RowFunctor<F> functor{f};
    Kokkos::parallel_for(label, Kokkos::TeamPolicy<ExecutionSpace>(static_cast<int>(rows), Kokkos::AUTO, 32), functor);
  }
  Kokkos::fence();
}

}  // namespace matrixfsdp::nn::detail

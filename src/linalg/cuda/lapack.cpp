#include <algorithm>
#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "linalg/backend.hpp"
#include "linalg/cuda/libraries.hpp"

namespace matrixfsdp::linalg::detail {
namespace {

using cuda::Call;
using cuda::check;
using cuda::Libraries;

template <class T>
constexpr bool is_float = std::is_same_v<T, float>;

void check_argument(const Call& call, int info) {
  if (info >= 0) return;
  throw ContractError(fmt::format("{}: cuSOLVER refuses argument {}", to_string(call), -info));
}

}  // namespace

template <class T>
int symmetric_eigenvectors(int n, T* a, int lda, T* values, const DecompositionWorkspace<T>& workspace) {
  Libraries& libraries = Libraries::of_this_thread();
  constexpr cusolverEigMode_t mode = CUSOLVER_EIG_MODE_VECTOR;
  constexpr cublasFillMode_t triangle = CUBLAS_FILL_MODE_UPPER;
  const Call call{is_float<T> ? "cusolverDnSsyevd" : "cusolverDnDsyevd", n, n};
  const cusolverDnHandle_t solver = libraries.solver();
  int size = 0;
  int* const info = libraries.info();
  if constexpr (is_float<T>) {
    check(cusolverDnSsyevd_bufferSize(solver, mode, triangle, n, a, lda, values, &size), call);
    T* const work = libraries.scratch(workspace.reals, size);
    libraries.started(cusolverDnSsyevd(solver, mode, triangle, n, a, lda, values, work, size, info), call);
  } else {
    check(cusolverDnDsyevd_bufferSize(solver, mode, triangle, n, a, lda, values, &size), call);
    T* const work = libraries.scratch(workspace.reals, size);
    libraries.started(cusolverDnDsyevd(solver, mode, triangle, n, a, lda, values, work, size, info), call);
  }
  libraries.finish();
  check_argument(call, *info);
  return *info;
}

template <class T>
void orthonormal_columns(int m, int n, T* a, int lda, const DecompositionWorkspace<T>& workspace) {
  Libraries& libraries = Libraries::of_this_thread();
  const Call factor{is_float<T> ? "cusolverDnSgeqrf" : "cusolverDnDgeqrf", m, n};
  const Call form{is_float<T> ? "cusolverDnSorgqr" : "cusolverDnDorgqr", m, n};
  const cusolverDnHandle_t solver = libraries.solver();
  T* const tau = workspace.reals.data();
  const Tensor<T> rest = Kokkos::subview(
      workspace.reals,
      Kokkos::make_pair(static_cast<std::size_t>(n), static_cast<std::size_t>(workspace.reals.extent(0))));
  int factor_size = 0;
  int form_size = 0;
  int* const info = libraries.info();
  if constexpr (is_float<T>) {
    check(cusolverDnSgeqrf_bufferSize(solver, m, n, a, lda, &factor_size), factor);
    check(cusolverDnSorgqr_bufferSize(solver, m, n, n, a, lda, tau, &form_size), form);
    T* const work = libraries.scratch(rest, std::max(factor_size, form_size));
    libraries.started(cusolverDnSgeqrf(solver, m, n, a, lda, tau, work, factor_size, info), factor);
    libraries.finish();
    check_argument(factor, *info);
    libraries.started(cusolverDnSorgqr(solver, m, n, n, a, lda, tau, work, form_size, info), form);
  } else {
    check(cusolverDnDgeqrf_bufferSize(solver, m, n, a, lda, &factor_size), factor);
    check(cusolverDnDorgqr_bufferSize(solver, m, n, n, a, lda, tau, &form_size), form);
    T* const work = libraries.scratch(rest, std::max(factor_size, form_size));
    libraries.started(cusolverDnDgeqrf(solver, m, n, a, lda, tau, work, factor_size, info), factor);
    libraries.finish();
    check_argument(factor, *info);
    libraries.started(cusolverDnDorgqr(solver, m, n, n, a, lda, tau, work, form_size, info), form);
  }
  libraries.finish();
  check_argument(form, *info);
}

template int symmetric_eigenvectors<float>(int, float*, int, float*, const DecompositionWorkspace<float>&);
template int symmetric_eigenvectors<double>(int, double*, int, double*, const DecompositionWorkspace<double>&);
template void orthonormal_columns<float>(int, int, float*, int, const DecompositionWorkspace<float>&);
template void orthonormal_columns<double>(int, int, double*, int, const DecompositionWorkspace<double>&);

std::string eigensolver_name(int bits) {
  return bits == 32 ? "cuSOLVER's ssyevd" : "cuSOLVER's dsyevd";
}

}  // namespace matrixfsdp::linalg::detail

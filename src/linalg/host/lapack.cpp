#include <type_traits>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

#include "linalg/backend.hpp"
#include "linalg/host/wait_for_kernels.hpp"

extern "C" {
void ssyevd_(const char*, const char*, const int*, float*, const int*, float*, float*, const int*, int*, const int*,
             int*);
void dsyevd_(const char*, const char*, const int*, double*, const int*, double*, double*, const int*, int*, const int*,
             int*);
void sgeqrf_(const int*, const int*, float*, const int*, float*, float*, const int*, int*);
void dgeqrf_(const int*, const int*, double*, const int*, double*, double*, const int*, int*);
void sorgqr_(const int*, const int*, const int*, float*, const int*, const float*, float*, const int*, int*);
void dorgqr_(const int*, const int*, const int*, double*, const int*, const double*, double*, const int*, int*);
}

namespace matrixfsdp::linalg::detail {
namespace {

template <class T>
constexpr bool is_float = std::is_same_v<T, float>;

void check_argument(const char* routine, int info) {
  if (info >= 0) return;
  throw ContractError(fmt::format("{}: LAPACK refuses argument {}", routine, -info));
}

}  // namespace

template <class T>
int symmetric_eigenvectors(int n, T* a, int lda, T* values, const DecompositionWorkspace<T>& workspace) {
  wait_for_kernels();
  // By the extent alone: LAPACK chooses its block sizes, and so the bits, by the workspace that it is given.
  const DecompositionScratch scratch = DecompositionScratch::for_eigenvectors(n);
  const int reals = blas_int(scratch.reals);
  const int integers = blas_int(scratch.integers);
  int info = 0;
  if constexpr (is_float<T>) {
    ssyevd_("V", "U", &n, a, &lda, values, workspace.reals.data(), &reals, workspace.integers.data(), &integers, &info);
  } else {
    dsyevd_("V", "U", &n, a, &lda, values, workspace.reals.data(), &reals, workspace.integers.data(), &integers, &info);
  }
  check_argument("eigenvectors", info);
  return info;
}

template <class T>
void orthonormal_columns(int m, int n, T* a, int lda, const DecompositionWorkspace<T>& workspace) {
  wait_for_kernels();
  T* const tau = workspace.reals.data();
  T* const work = tau + n;
  const int size = blas_int(DecompositionScratch::for_orthonormal_rows(n).reals - n);
  int info = 0;
  if constexpr (is_float<T>) {
    sgeqrf_(&m, &n, a, &lda, tau, work, &size, &info);
    check_argument("orthonormal_rows", info);
    sorgqr_(&m, &n, &n, a, &lda, tau, work, &size, &info);
  } else {
    dgeqrf_(&m, &n, a, &lda, tau, work, &size, &info);
    check_argument("orthonormal_rows", info);
    dorgqr_(&m, &n, &n, a, &lda, tau, work, &size, &info);
  }
  check_argument("orthonormal_rows", info);
}

template int symmetric_eigenvectors<float>(int, float*, int, float*, const DecompositionWorkspace<float>&);
template int symmetric_eigenvectors<double>(int, double*, int, double*, const DecompositionWorkspace<double>&);
template void orthonormal_columns<float>(int, int, float*, int, const DecompositionWorkspace<float>&);
template void orthonormal_columns<double>(int, int, double*, int, const DecompositionWorkspace<double>&);

std::string eigensolver_name(int bits) {
  return bits == 32 ? "LAPACK's ssyevd" : "LAPACK's dsyevd";
}

}  // namespace matrixfsdp::linalg::detail

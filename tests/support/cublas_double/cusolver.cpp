#include <algorithm>
#include <limits>
#include <vector>

#include <cusolverDn.h>

#include "support/cublas_double/device.hpp"

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

/// cuSOLVER: "Dense Eigenvalue Solver" and "Dense Linear Solver" (docs.nvidia.com/cuda/cusolver). Work that overlaps
/// anything shows: it is filled before LAPACK runs.
struct cusolverDnContext {
  bool has_stream = false;
};

namespace {

using matrixfsdp::cublas_double::check_matrix;
using matrixfsdp::cublas_double::control;
using matrixfsdp::cublas_double::fails;
using matrixfsdp::cublas_double::put_off;
using matrixfsdp::cublas_double::refuse;

/// LAPACK's minimum for even extents, more than any caller keeps for odd ones.
int eigen_size(int n) {
  return 1 + 6 * n + 2 * n * n + (n % 2 == 0 ? 0 : 40 * n);
}
int qr_size(int n) {
  return n % 2 == 0 ? n : 100 * n;
}

bool is_ready(const char* call, cusolverDnHandle_t handle, const void* work, int given, int needed, const int* info) {
  if (handle == nullptr || !handle->has_stream) return refuse(call, "no handle with a stream");
  if (work == nullptr || info == nullptr) return refuse(call, "work or info is null");
  if (given < needed) return refuse(call, "work is smaller than bufferSize says");
  control().calls += call;
  control().calls += ' ';
  return true;
}

int told(int info) {
  return control().solver_info != 0 ? control().solver_info : info;
}

template <class T>
cusolverStatus_t syevd(const char* call, cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t uplo,
                       int n, T* a, int lda, T* values, T* work, int size, int* info) {
  if (fails(call)) return CUSOLVER_STATUS_EXECUTION_FAILED;
  bool good = is_ready(call, handle, work, size, eigen_size(n), info) && check_matrix(call, "A", a, n, lda) &&
              check_matrix(call, "W", values, n, n);
  if (good && (mode != CUSOLVER_EIG_MODE_VECTOR || uplo != CUBLAS_FILL_MODE_UPPER))
    good = refuse(call, "only vectors of the upper triangle are modelled");
  if (!good) return CUSOLVER_STATUS_INVALID_VALUE;
  put_off([=] {
    std::fill_n(work, size, std::numeric_limits<T>::quiet_NaN());
    std::vector<T> reals(static_cast<std::size_t>(1 + 6 * n + 2 * n * n));
    std::vector<int> integers(static_cast<std::size_t>(3 + 5 * n));
    const int real_count = static_cast<int>(reals.size());
    const int integer_count = static_cast<int>(integers.size());
    if constexpr (std::is_same_v<T, float>)
      ssyevd_("V", "U", &n, a, &lda, values, reals.data(), &real_count, integers.data(), &integer_count, info);
    else
      dsyevd_("V", "U", &n, a, &lda, values, reals.data(), &real_count, integers.data(), &integer_count, info);
    *info = told(*info);
  });
  return CUSOLVER_STATUS_SUCCESS;
}

template <class T>
cusolverStatus_t geqrf(const char* call, cusolverDnHandle_t handle, int m, int n, T* a, int lda, T* tau, T* work,
                       int size, int* info) {
  if (fails(call)) return CUSOLVER_STATUS_EXECUTION_FAILED;
  if (!is_ready(call, handle, work, size, qr_size(n), info) || !check_matrix(call, "A", a, m, lda))
    return CUSOLVER_STATUS_INVALID_VALUE;
  put_off([=] {
    std::fill_n(work, size, std::numeric_limits<T>::quiet_NaN());
    std::vector<T> own(static_cast<std::size_t>(n) * 64);
    const int count = static_cast<int>(own.size());
    if constexpr (std::is_same_v<T, float>)
      sgeqrf_(&m, &n, a, &lda, tau, own.data(), &count, info);
    else
      dgeqrf_(&m, &n, a, &lda, tau, own.data(), &count, info);
    *info = told(*info);
  });
  return CUSOLVER_STATUS_SUCCESS;
}

template <class T>
cusolverStatus_t orgqr(const char* call, cusolverDnHandle_t handle, int m, int n, int k, T* a, int lda, const T* tau,
                       T* work, int size, int* info) {
  if (fails(call)) return CUSOLVER_STATUS_EXECUTION_FAILED;
  if (!is_ready(call, handle, work, size, qr_size(n), info) || !check_matrix(call, "A", a, m, lda))
    return CUSOLVER_STATUS_INVALID_VALUE;
  put_off([=] {
    std::fill_n(work, size, std::numeric_limits<T>::quiet_NaN());
    std::vector<T> own(static_cast<std::size_t>(n) * 64);
    const int count = static_cast<int>(own.size());
    if constexpr (std::is_same_v<T, float>)
      sorgqr_(&m, &n, &k, a, &lda, tau, own.data(), &count, info);
    else
      dorgqr_(&m, &n, &k, a, &lda, tau, own.data(), &count, info);
    *info = told(*info);
  });
  return CUSOLVER_STATUS_SUCCESS;
}

}  // namespace

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  if (fails("cusolverDnCreate")) return CUSOLVER_STATUS_NOT_INITIALIZED;
  *handle = new cusolverDnContext;
  ++control().open_handles;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  delete handle;
  --control().open_handles;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t /*stream*/) {
  handle->has_stream = true;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverGetProperty(libraryPropertyType type, int* value) {
  *value = type == MAJOR_VERSION ? CUSOLVER_VER_MAJOR : 0;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSsyevd_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int n,
                                             const float*, int, const float*, int* size) {
  *size = eigen_size(n);
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDsyevd_bufferSize(cusolverDnHandle_t, cusolverEigMode_t, cublasFillMode_t, int n,
                                             const double*, int, const double*, int* size) {
  *size = eigen_size(n);
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSgeqrf_bufferSize(cusolverDnHandle_t, int, int n, float*, int, int* size) {
  *size = qr_size(n);
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDgeqrf_bufferSize(cusolverDnHandle_t, int, int n, double*, int, int* size) {
  *size = qr_size(n);
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSorgqr_bufferSize(cusolverDnHandle_t, int, int n, int, const float*, int, const float*,
                                             int* size) {
  *size = qr_size(n);
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDorgqr_bufferSize(cusolverDnHandle_t, int, int n, int, const double*, int, const double*,
                                             int* size) {
  *size = qr_size(n);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSsyevd(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t uplo, int n,
                                  float* a, int lda, float* values, float* work, int size, int* info) {
  return syevd("cusolverDnSsyevd", handle, mode, uplo, n, a, lda, values, work, size, info);
}
cusolverStatus_t cusolverDnDsyevd(cusolverDnHandle_t handle, cusolverEigMode_t mode, cublasFillMode_t uplo, int n,
                                  double* a, int lda, double* values, double* work, int size, int* info) {
  return syevd("cusolverDnDsyevd", handle, mode, uplo, n, a, lda, values, work, size, info);
}
cusolverStatus_t cusolverDnSgeqrf(cusolverDnHandle_t handle, int m, int n, float* a, int lda, float* tau, float* work,
                                  int size, int* info) {
  return geqrf("cusolverDnSgeqrf", handle, m, n, a, lda, tau, work, size, info);
}
cusolverStatus_t cusolverDnDgeqrf(cusolverDnHandle_t handle, int m, int n, double* a, int lda, double* tau,
                                  double* work, int size, int* info) {
  return geqrf("cusolverDnDgeqrf", handle, m, n, a, lda, tau, work, size, info);
}
cusolverStatus_t cusolverDnSorgqr(cusolverDnHandle_t handle, int m, int n, int k, float* a, int lda, const float* tau,
                                  float* work, int size, int* info) {
  return orgqr("cusolverDnSorgqr", handle, m, n, k, a, lda, tau, work, size, info);
}
cusolverStatus_t cusolverDnDorgqr(cusolverDnHandle_t handle, int m, int n, int k, double* a, int lda, const double* tau,
                                  double* work, int size, int* info) {
  return orgqr("cusolverDnDorgqr", handle, m, n, k, a, lda, tau, work, size, info);
}

#include "linalg/one_thread.hpp"

#include <cstdint>

#include <dlfcn.h>

#include <matrixfsdp/linalg/blas.hpp>

extern "C" {
// Present in one BLAS or another; null where it is not.
__attribute__((weak)) int openblas_get_num_threads();
__attribute__((weak)) int MKL_Get_Max_Threads();
__attribute__((weak)) std::int64_t bli_thread_get_num_threads();
}

namespace matrixfsdp::linalg::detail {
namespace {

int blas_threads() {
  if (openblas_get_num_threads != nullptr) return openblas_get_num_threads();
  if (MKL_Get_Max_Threads != nullptr) return MKL_Get_Max_Threads();
  if (bli_thread_get_num_threads != nullptr) return static_cast<int>(bli_thread_get_num_threads());
  return 0;
}

// OpenMP is oneDNN's or Kokkos', and not otherwise linked.
int openmp_threads() {
  const auto get = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  return get != nullptr ? get() : 0;
}

void set_openmp_threads(int threads) {
  const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set != nullptr) set(threads);
}

}  // namespace

OneThreadPerProduct::OneThreadPerProduct() : blas_(blas_threads()), openmp_(openmp_threads()) {
  if (blas_ > 1 || openmp_ > 1) set_threads(1);
}

OneThreadPerProduct::~OneThreadPerProduct() {
  if (blas_ > 1) set_threads(blas_);
  if (openmp_ > 1 || (blas_ > 1 && openmp_ > 0)) set_openmp_threads(openmp_);
}

void use_one_openmp_thread() {
  set_openmp_threads(1);
}

}  // namespace matrixfsdp::linalg::detail

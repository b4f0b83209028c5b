#include <type_traits>

#include <dlfcn.h>
#include <fmt/format.h>

#include <matrixfsdp/linalg/blas.hpp>

#include "linalg/backend.hpp"
#include "linalg/host/wait_for_kernels.hpp"

extern "C" {
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*, const float*, const int*,
            const float*, const int*, const float*, float*, const int*);
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*,
            const double*, const int*, const double*, double*, const int*);
void ssyrk_(const char*, const char*, const int*, const int*, const float*, const float*, const int*, const float*,
            float*, const int*);
void dsyrk_(const char*, const char*, const int*, const int*, const double*, const double*, const int*, const double*,
            double*, const int*);
// Present in one BLAS or another; null where it is not.
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) char* openblas_get_config();
__attribute__((weak)) char* openblas_get_corename();
__attribute__((weak)) void MKL_Set_Num_Threads(int);
__attribute__((weak)) void bli_thread_set_num_threads(std::int64_t);
}

namespace matrixfsdp::linalg {
namespace detail {
namespace {

const char* letter(bool transpose) {
  return transpose ? "T" : "N";
}

}  // namespace

template <class T>
void start(const ColumnGemm<T>& p) {
  wait_for_kernels();
  if constexpr (std::is_same_v<T, float>) {
    sgemm_(letter(p.transpose_a), letter(p.transpose_b), &p.m, &p.n, &p.k, &p.alpha, p.a, &p.lda, p.b, &p.ldb, &p.beta,
           p.c, &p.ldc);
  } else {
    dgemm_(letter(p.transpose_a), letter(p.transpose_b), &p.m, &p.n, &p.k, &p.alpha, p.a, &p.lda, p.b, &p.ldb, &p.beta,
           p.c, &p.ldc);
  }
}

template <class T>
void start(const ColumnSyrk<T>& p) {
  wait_for_kernels();
  if constexpr (std::is_same_v<T, float>) {
    ssyrk_("U", letter(p.transpose), &p.n, &p.k, &p.alpha, p.a, &p.lda, &p.beta, p.c, &p.ldc);
  } else {
    dsyrk_("U", letter(p.transpose), &p.n, &p.k, &p.alpha, p.a, &p.lda, &p.beta, p.c, &p.ldc);
  }
}

template <class T>
void start(const ColumnGemmBatch<T>& p) {
  ColumnGemm<T> one = p.first;
  for (int i = 0; i < p.count; ++i) {
    start(one);
    one.a += p.stride_a;
    one.b += p.stride_b;
    one.c += p.stride_c;
  }
}

template void start(const ColumnGemm<float>&);
template void start(const ColumnGemm<double>&);
template void start(const ColumnSyrk<float>&);
template void start(const ColumnSyrk<double>&);
template void start(const ColumnGemmBatch<float>&);
template void start(const ColumnGemmBatch<double>&);

void finish() {}

void use_threads(int threads) {
  if (openblas_set_num_threads != nullptr) openblas_set_num_threads(threads);
  if (MKL_Set_Num_Threads != nullptr) MKL_Set_Num_Threads(threads);
  if (bli_thread_set_num_threads != nullptr) bli_thread_set_num_threads(threads);
  // Of oneDNN, whose OpenMP is not otherwise linked.
  using SetThreads = void (*)(int);
  const auto set_openmp = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (set_openmp != nullptr) set_openmp(threads);
}

void use_math(Math /*math*/) {}  // there is one

}  // namespace detail

bool batches_products() {
  return false;  // one small product keeps a core busy
}

std::string tf32_obstacle() {
  return "this build has no CUDA, whose devices multiply tf32, expected float32";
}

std::string blas_description() {
  if (openblas_get_config != nullptr) {
    const std::string core = openblas_get_corename != nullptr ? openblas_get_corename() : "";
    return fmt::format("{} ({})", openblas_get_config(), core);
  }
  return MKL_Set_Num_Threads != nullptr ? "MKL" : "BLAS";
}

}  // namespace matrixfsdp::linalg

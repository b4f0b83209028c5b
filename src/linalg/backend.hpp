#pragma once

#include <cstdint>
#include <string>

#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/linalg/eigen.hpp>

#include "linalg/column_major.hpp"

/// What this build computes with: host/ (BLAS and LAPACK) or cuda/ (cuBLAS and cuSOLVER), which CMake picks by the
/// devices of Kokkos. Arguments have been checked. What has been started is complete after finish(); kernels that were
/// started before see, and those started after wait for, nothing of it that is not in the order of calls. T is float or
/// double.
namespace matrixfsdp::linalg::detail {

/// Starts a product that is not empty.
template <class T>
void start(const ColumnGemm<T>& product);
template <class T>
void start(const ColumnSyrk<T>& product);
/// Starts products that have terms.
template <class T>
void start(const ColumnGemmBatch<T>& products);

/// Waits for what this thread has started, and throws what went wrong with it.
void finish();

/// ?syevd of the n x n matrix A, its upper triangle, with vectors: LAPACK's info. Complete when it returns.
template <class T>
int symmetric_eigenvectors(int n, T* a, int lda, T* values, const DecompositionWorkspace<T>& workspace);

/// ?geqrf and ?orgqr of the m x n matrix A, m >= n: A <- the first n columns of Q. Complete when it returns.
template <class T>
void orthonormal_columns(int m, int n, T* a, int lda, const DecompositionWorkspace<T>& workspace);

/// "LAPACK's ssyevd": for messages.
std::string eigensolver_name(int bits);

/// Of the products that follow, where the library has such a setting; threads >= 1.
void use_threads(int threads);

/// Sets what set_math asks for, which this build and device can do.
void use_math(Math math);

}  // namespace matrixfsdp::linalg::detail

#pragma once

namespace matrixfsdp::linalg::detail {

/// Products of this process, and of oneDNN those of the calling thread, use one thread while it lives; then as many as
/// before.
class OneThreadPerProduct {
 public:
  OneThreadPerProduct();
  ~OneThreadPerProduct();
  OneThreadPerProduct(const OneThreadPerProduct&) = delete;
  OneThreadPerProduct& operator=(const OneThreadPerProduct&) = delete;

 private:
  int blas_;    ///< threads before; 0: unknown
  int openmp_;  ///< of the calling thread; 0: no OpenMP in the process
};

/// OpenMP counts threads for each thread that asks: the calling one gets one, where there is OpenMP.
void use_one_openmp_thread();

}  // namespace matrixfsdp::linalg::detail

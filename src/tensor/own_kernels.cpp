#include "tensor/own_kernels.hpp"

namespace matrixfsdp::detail {
namespace {

// Of a scope on one thread (OwnKernels), never of the program: a parameter of every kernel and product otherwise.
thread_local bool own_kernels = false;

}  // namespace

bool runs_own_kernels() noexcept {
  return own_kernels;
}

OwnKernels::OwnKernels() noexcept : before_(own_kernels) {
  own_kernels = true;
}

OwnKernels::~OwnKernels() {
  own_kernels = before_;
}

}  // namespace matrixfsdp::detail

#pragma once

#include <string>

/// The host double of cuBLAS, cuSOLVER and the little of CUDA's runtime that src/linalg/cuda calls: it computes
/// column-major with loops and the host's LAPACK, puts all work off until its stream is waited for, and refuses what
/// the documentation of the libraries forbids.
namespace matrixfsdp::cublas_double {

/// What a test makes go wrong, and what the double has seen.
struct Control {
  std::string failing_call;     ///< its next call returns an error: "cublasSgemm"
  bool device_is_lost = false;  ///< waiting for the stream fails
  bool has_device = true;       ///< cudaGetDevice finds one
  int capability = 9;           ///< of the device, the major number
  int solver_info = 0;          ///< what cuSOLVER says in devInfo, instead of the truth, where it is not 0
  int open_handles = 0;         ///< of both libraries
  int refused = 0;              ///< calls that break a rule; the rule is on standard error
  std::string calls;            ///< names of routines that computed, each followed by a blank
};

Control& control();

/// Everything as at the start; handles stay.
void reset();

}  // namespace matrixfsdp::cublas_double

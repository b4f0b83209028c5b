#pragma once

#include <functional>
#include <string>

#include "support/cublas_double/control.hpp"

namespace matrixfsdp::cublas_double {

/// Runs when the stream is waited for, in the order of calls.
void put_off(std::function<void()> work);
/// Whether there is work that nobody has waited for.
bool has_work();
/// cudaStreamSynchronize.
void do_work();

/// Counts a call that breaks a rule, and says which. Returns false.
bool refuse(const char* call, const std::string& rule);
/// Whether a test wants this call to fail; once.
bool fails(const char* call);

/// Pointers and extents that every routine has: a leading dimension of at least `rows` and 1.
bool check_matrix(const char* call, const char* name, const void* data, int rows, int leading);

}  // namespace matrixfsdp::cublas_double

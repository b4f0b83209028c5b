#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <matrixfsdp/linalg/workers.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

namespace matrixfsdp {

/// One of several matrices.
template <class T>
struct OrthogonalizeTask {
  MatrixView<const T> input;   ///< as orthogonalize has it
  MatrixView<T> output;        ///< the same; overlaps no other task's matrices
  OrthogonalizeResult result;  ///< what became of it
};

/// The threads of orthogonalize_many, and the scratch of each, which grows to the largest matrices it has met.
template <class T>
class OrthogonalizeTeam {
 public:
  /// As linalg::Workers.
  explicit OrthogonalizeTeam(int workers = 1);

  /// linalg::Workers::count.
  [[nodiscard]] int workers() const { return workers_->count(); }
  /// NewtonSchulzWorkspace::bytes, of all.
  [[nodiscard]] std::int64_t bytes() const;

 private:
  template <class U>
  friend void orthogonalize_many(std::span<OrthogonalizeTask<U>> tasks, const NewtonSchulzOptions& options,
                                 OrthogonalizeTeam<U>& team);

  std::unique_ptr<linalg::Workers> workers_;
  std::vector<NewtonSchulzWorkspace<T>> scratch_;  ///< of each worker
};

/// orthogonalize of every task, several at once. On the host: largest first (newton_schulz_flops), each to the worker
/// with the least to do (WorkerLists), one thread for a product, and pieces of large ones for workers that have none
/// left. Bits do not depend on the number of workers. Where the BLAS multiplies in batches (linalg::batches_products),
/// matrices of one shape are batches of newton_schulz_batch, one call for each product of a batch; those for which that
/// is 1 are done one after the other. Bits do not depend on how many tasks there are; they are those of orthogonalize
/// but for rounding: a relative difference, in the Frobenius norm, of at most 1e-3 for float (1e-11 for double; up to
/// 1e-4 was measured on a host BLAS, for small matrices of independent entries). Complete when it returns; no
/// allocation of scratch where an earlier call had the same extents. Throws what orthogonalize throws; other tasks may
/// be done then. T is float or double.
template <class T>
void orthogonalize_many(std::span<OrthogonalizeTask<T>> tasks, const NewtonSchulzOptions& options,
                        OrthogonalizeTeam<T>& team);

}  // namespace matrixfsdp

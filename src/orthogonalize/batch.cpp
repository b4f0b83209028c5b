#include "orthogonalize/batch.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/blas.hpp>

#include "linalg/batch.hpp"
#include "orthogonalize/contract.hpp"
#include "orthogonalize/iteration.hpp"
#include "orthogonalize/normalize.hpp"
#include "orthogonalize/rounded_iteration.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp::detail {
namespace {

using linalg::Op;
using linalg::detail::batched_gemm;
using linalg::detail::MatrixBatch;

/// As Products (products.hpp), of a batch; FLOPs are those of one matrix.
template <class T>
class BatchProducts {
 public:
  using Matrix = MatrixBatch<T>;

  explicit BatchProducts(bool tall) : tall_(tall) {}

  void gram(const Matrix& x, const Matrix& r) {
    product(tall_ ? Op::transpose : Op::none, tall_ ? Op::none : Op::transpose, x, x, r);
    linalg::detail::mirror<T>(r);
  }
  void square(const Matrix& r, const Matrix& out) { product(Op::none, Op::none, r, r, out); }
  void multiply(const Matrix& p, const Matrix& q, const Matrix& out) {
    product(Op::none, Op::none, p, q, out);
    linalg::detail::mirror<T>(out);
  }
  void apply(const Matrix& q, const Matrix& x, const Matrix& out) {
    product(Op::none, Op::none, tall_ ? x : q, tall_ ? q : x, out);
  }

  [[nodiscard]] std::int64_t flops() const { return flops_; }

 private:
  void product(Op op_a, Op op_b, const Matrix& a, const Matrix& b, const Matrix& out) {
    batched_gemm<T>(op_a, op_b, a, b, out);
    flops_ += 2 * out.rows * out.cols * (op_a == Op::none ? a.cols : a.rows);
  }

  bool tall_;
  std::int64_t flops_ = 0;
};

/// A batch in its workspace.
template <class T>
struct Batch {
  static_assert(sizeof(MatrixView<const T>) + sizeof(MatrixView<T>) + sizeof(Normalization) ==
                static_cast<std::size_t>(newton_schulz_slot_bytes));

  Batch(std::span<OrthogonalizeTask<T>* const> given, std::int64_t slot_count, NewtonSchulzWorkspace<T>& workspace)
      : tasks(given),
        slots(slot_count),
        rows(given.front()->input.rows),
        cols(given.front()->input.cols),
        iterates(workspace.iterate.data()),
        products(workspace.products.data()),
        sums(workspace.partial_sums),
        inputs(reinterpret_cast<MatrixView<const T>*>(workspace.slots.data())),
        outputs(reinterpret_cast<MatrixView<T>*>(inputs + slots)),
        norms(reinterpret_cast<Normalization*>(outputs + slots)) {
    for (std::int64_t i = 0; i < slots; ++i) {
      inputs[i] = i < count() ? task(i).input : MatrixView<const T>();
      outputs[i] = i < count() ? task(i).output : MatrixView<T>();
      norms[i] = {};
    }
  }

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(tasks.size()); }
  [[nodiscard]] OrthogonalizeTask<T>& task(std::int64_t i) const { return *tasks[static_cast<std::size_t>(i)]; }
  [[nodiscard]] std::int64_t small() const { return std::min(rows, cols); }
  /// The first or second of two X for each slot.
  [[nodiscard]] MatrixBatch<T> iterate(std::int64_t which) const {
    return {iterates + which * slots * rows * cols, slots, rows, cols};
  }
  [[nodiscard]] MatrixBatch<T> product(std::int64_t which) const {
    return {products + which * slots * small() * small(), slots, small(), small()};
  }

  std::span<OrthogonalizeTask<T>* const> tasks;
  std::int64_t slots;
  std::int64_t rows;
  std::int64_t cols;
  T* iterates;
  T* products;
  TensorView<double> sums;
  MatrixView<const T>* inputs;  ///< of each slot
  MatrixView<T>* outputs;
  Normalization* norms;
};

/// Of the inputs: true where one of them has an answer.
template <class T>
bool measure_inputs(const Batch<T>& batch, double norm_floor) {
  const MatrixView<const T>* const inputs = batch.inputs;
  measure_batch<T>(inputs, batch.count(), batch.rows, batch.cols, batch.norms, batch.sums);
  bool any = false;
  for (std::int64_t i = 0; i < batch.count(); ++i) {
    OrthogonalizeResult& result = batch.task(i).result;
    Normalization& norm = batch.norms[i];
    if (!norm.finite) {
      result.status = OrthogonalizeStatus::non_finite;
    } else if (norm.zero) {
      result.status = OrthogonalizeStatus::zero;
    } else {
      raise_norm(norm, norm_floor);
      any = true;
    }
  }
  return any;
}

/// Returns the FLOPs of one matrix; x is where the results are.
template <class T>
std::int64_t iterate_batch(const Batch<T>& batch, const NewtonSchulzOptions& options, NewtonSchulzAlgorithm algorithm,
                           MatrixBatch<T>& x) {
  Iteration<BatchProducts<T>> it{
      coefficients_of(options), options.steps,    algorithm, BatchProducts<T>(batch.rows > batch.cols),
      batch.iterate(0),         batch.iterate(1), {}};
  for (int i = 0; i < small_matrices(algorithm); ++i)
    it.small[i] = batch.product(i);
  normalize_batch<T>(batch.inputs, batch.norms, it.x);
  iterate(it);
  x = it.x;
  return it.products.flops();
}

template <class T>
MatrixBatch<T> results_of(const Batch<T>& batch, const NewtonSchulzOptions& options, NewtonSchulzAlgorithm algorithm,
                          NewtonSchulzWorkspace<T>& workspace) {
  MatrixBatch<T> x = batch.iterate(0);
  std::int64_t flops = 0;
  if (options.dtype != DType::bfloat16) {
    flops = iterate_batch(batch, options, algorithm, x);
  } else if constexpr (std::is_same_v<T, float>) {
    flops = iterate_bfloat16_batch(batch.inputs, batch.norms, coefficients_of(options), options.steps, workspace, x);
  }
  for (OrthogonalizeTask<T>* const task : batch.tasks) {
    if (task->result.status == OrthogonalizeStatus::ok) task->result.flops = flops;
  }
  return x;
}

template <class T>
void find_diverged(const Batch<T>& batch, const MatrixBatch<T>& x) {
  measure_batch<T>(x, batch.count(), batch.rows, batch.cols, batch.norms, batch.sums);
  for (std::int64_t i = 0; i < batch.count(); ++i) {
    OrthogonalizeStatus& status = batch.task(i).result.status;
    if (status == OrthogonalizeStatus::ok && has_diverged(batch.norms[i], batch.small()))
      status = OrthogonalizeStatus::diverged;
  }
}

template <class T>
void measure_residuals(const Batch<T>& batch, const MatrixBatch<T>& x) {
  const MatrixBatch<T> gram = batch.product(0);
  BatchProducts<T>(batch.rows > batch.cols).gram(x, gram);
  const std::int64_t extent = gram.rows;
  for_range(
      "matrixfsdp::orthogonalize::subtract_identity", gram.count * extent, KOKKOS_LAMBDA(const std::int64_t index) {
        const std::int64_t i = index % extent;
        gram[index / extent](i, i) -= T{1};
      });
  measure_batch<T>(gram, batch.count(), extent, extent, batch.norms, batch.sums);
  for (std::int64_t i = 0; i < batch.count(); ++i) {
    OrthogonalizeResult& result = batch.task(i).result;
    if (result.status == OrthogonalizeStatus::ok) result.residual = residual_of_difference(batch.norms[i], extent);
  }
}

/// Tasks of one shape, which follow each other.
template <class T>
void orthogonalize_alike(std::span<OrthogonalizeTask<T>* const> tasks, const NewtonSchulzOptions& options,
                         NewtonSchulzWorkspace<T>& workspace) {
  const MatrixView<const T>& shape = tasks.front()->input;
  const std::int64_t slots = slots_of(shape.rows, shape.cols, options);
  if (slots == 1) {
    for (OrthogonalizeTask<T>* const task : tasks)
      task->result = orthogonalize<T>(task->input, task->output, options, workspace);
    return;
  }
  while (!tasks.empty()) {
    const std::size_t count = std::min(static_cast<std::size_t>(slots), tasks.size());
    orthogonalize_batch<T>(tasks.first(count), slots, options, workspace);
    tasks = tasks.subspan(count);
  }
}

}  // namespace

std::int64_t slots_of(std::int64_t rows, std::int64_t cols, const NewtonSchulzOptions& options) {
  if (!linalg::batches_products()) return 1;
  return newton_schulz_batch(rows, cols, options.steps, options.algorithm, options.dtype);
}

template <class T>
void orthogonalize_batch(std::span<OrthogonalizeTask<T>* const> tasks, std::int64_t slots,
                         const NewtonSchulzOptions& options, NewtonSchulzWorkspace<T>& workspace) {
  require(!tasks.empty() && static_cast<std::int64_t>(tasks.size()) <= slots && slots > 1,
          "orthogonalize_batch: expected at least one task, two slots, and a slot for each task");
  for (OrthogonalizeTask<T>* const task : tasks) {
    require(task->input.rows == tasks.front()->input.rows && task->input.cols == tasks.front()->input.cols,
            "orthogonalize_batch: matrices of unlike shapes, expected one");
    task->result = require_valid<T>(task->input, task->output, options);
  }
  const NewtonSchulzAlgorithm algorithm = tasks.front()->result.algorithm;
  workspace.reserve(tasks.front()->input.rows, tasks.front()->input.cols, options, slots);
  const Batch<T> batch(tasks, slots, workspace);
  const bool any = measure_inputs(batch, options.norm_floor);
  const MatrixBatch<T> x = any ? results_of(batch, options, algorithm, workspace) : batch.iterate(0);
  hand_out_batch<T>(x, batch.norms, batch.count(), batch.outputs);
  if (!any) return;
  find_diverged(batch, x);
  if (options.measure_residual) measure_residuals(batch, x);
}

template <class T>
void orthogonalize_each(std::span<OrthogonalizeTask<T>> tasks, const NewtonSchulzOptions& options,
                        NewtonSchulzWorkspace<T>& workspace) {
  if (!linalg::batches_products()) {
    for (OrthogonalizeTask<T>& task : tasks)
      task.result = orthogonalize<T>(task.input, task.output, options, workspace);
    return;
  }
  std::vector<OrthogonalizeTask<T>*> sorted;
  sorted.reserve(tasks.size());
  for (OrthogonalizeTask<T>& task : tasks)
    sorted.push_back(&task);
  const auto shape = [](const OrthogonalizeTask<T>* task) { return std::pair(task->input.rows, task->input.cols); };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const auto* left, const auto* right) { return shape(left) < shape(right); });
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::find_if(begin, sorted.end(), [&](const auto* task) { return shape(task) != shape(*begin); });
    orthogonalize_alike<T>(std::span(begin, end), options, workspace);
    begin = end;
  }
}

template void orthogonalize_batch<float>(std::span<OrthogonalizeTask<float>* const>, std::int64_t,
                                         const NewtonSchulzOptions&, NewtonSchulzWorkspace<float>&);
template void orthogonalize_batch<double>(std::span<OrthogonalizeTask<double>* const>, std::int64_t,
                                          const NewtonSchulzOptions&, NewtonSchulzWorkspace<double>&);
template void orthogonalize_each<float>(std::span<OrthogonalizeTask<float>>, const NewtonSchulzOptions&,
                                        NewtonSchulzWorkspace<float>&);
template void orthogonalize_each<double>(std::span<OrthogonalizeTask<double>>, const NewtonSchulzOptions&,
                                         NewtonSchulzWorkspace<double>&);

}  // namespace matrixfsdp::detail

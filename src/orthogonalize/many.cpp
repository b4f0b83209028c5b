#include <utility>

#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/orthogonalize/many.hpp>
#include <matrixfsdp/plan/worker_lists.hpp>

#include "orthogonalize/batch.hpp"
#include "tensor/for_range.hpp"

namespace matrixfsdp {

template <class T>
OrthogonalizeTeam<T>::OrthogonalizeTeam(int workers)
    : workers_(std::make_unique<linalg::Workers>(workers)), scratch_(static_cast<std::size_t>(workers_->count())) {
  for (NewtonSchulzWorkspace<T>& scratch : scratch_)
    scratch.workers = detail::kernels_run_on_host ? workers_.get() : nullptr;
}

template <class T>
std::int64_t OrthogonalizeTeam<T>::bytes() const {
  std::int64_t bytes = 0;
  for (const NewtonSchulzWorkspace<T>& scratch : scratch_)
    bytes += scratch.bytes();
  return bytes;
}

template <class T>
void orthogonalize_many(std::span<OrthogonalizeTask<T>> tasks, const NewtonSchulzOptions& options,
                        OrthogonalizeTeam<T>& team) {
  if (linalg::batches_products()) {
    detail::orthogonalize_each<T>(tasks, options, team.scratch_.front());
    return;
  }
  std::vector<std::int64_t> costs;
  costs.reserve(tasks.size());
  for (const OrthogonalizeTask<T>& task : tasks)
    costs.push_back(
        newton_schulz_flops(task.input.rows, task.input.cols, options.steps, options.algorithm, options.dtype));
  WorkerLists lists(std::move(costs), team.workers());
  lists.assign([](std::size_t) { return true; });
  team.workers_->run([&](std::int64_t worker) {
    for (const std::size_t index : lists.of(static_cast<int>(worker))) {
      OrthogonalizeTask<T>& task = tasks[index];
      task.result = orthogonalize<T>(task.input, task.output, options, team.scratch_[static_cast<std::size_t>(worker)]);
    }
  });
}

template class OrthogonalizeTeam<float>;
template class OrthogonalizeTeam<double>;
template void orthogonalize_many<float>(std::span<OrthogonalizeTask<float>>, const NewtonSchulzOptions&,
                                        OrthogonalizeTeam<float>&);
template void orthogonalize_many<double>(std::span<OrthogonalizeTask<double>>, const NewtonSchulzOptions&,
                                         OrthogonalizeTeam<double>&);

}  // namespace matrixfsdp

#include <algorithm>
#include <utility>

#include <matrixfsdp/comm/segments.hpp>

#include "baselines/row_muon.hpp"
#include "baselines/row_tables.hpp"

namespace matrixfsdp::baselines {
namespace {

/// fsdp2-gather: each matrix is gathered once, and every rank orthogonalizes it. The next ones arrive meanwhile.
class GatheredMuon final : public RowMuon {
 public:
  GatheredMuon(ShardedModel& model, std::vector<ParameterView> views, const MuonOptions& options, int workers,
               CollectiveAlgorithm algorithm, std::int64_t ahead)
      : RowMuon(model, std::move(views), options, workers),
        tables_(communicator(), algorithm),
        ahead_(static_cast<std::size_t>(ahead)) {
    const std::size_t slots = std::min(ahead_ + 1, std::max<std::size_t>(1, matrices().size()));
    std::vector<std::int64_t> sizes(slots, 0);
    for (std::size_t i = 0; i < matrices().size(); ++i) {
      sizes[i % slots] = std::max(sizes[i % slots], matrices()[i].size);
      reserve(matrices()[i]);
    }
    for (const std::int64_t size : sizes)
      slots_.push_back(make_tensor<float>("matrix that is gathered", size));
    arriving_.resize(slots);
  }

  ~GatheredMuon() override {
    if (interrupted()) abandon(slots_);
  }
  GatheredMuon(const GatheredMuon&) = delete;
  GatheredMuon& operator=(const GatheredMuon&) = delete;

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    std::int64_t bytes = scratch_bytes();
    for (const Tensor<float>& slot : slots_)
      bytes += bytes_of(slot);
    return bytes;
  }

 private:
  void step_all(const StepInput& input, StepResult& result) override {
    std::size_t started = 0;
    for (std::size_t i = 0; i < matrices().size(); ++i) {
      for (; started < matrices().size() && started <= i + ahead_; ++started)
        start(started, input);
      for (Request& request : arriving_[i % slots_.size()])
        request.wait();
      const RowMatrix& matrix = matrices()[i];
      const TensorView<float> whole = slice(slots_[i % slots_.size()], 0, matrix.size);
      if (orthogonalize_whole(matrix, whole, result)) {
        apply_whole(matrix, input, whole, result);
      } else {
        result.failed.push_back(matrix.spec->name);
      }
    }
  }

  void start(std::size_t index, const StepInput& input) {
    const RowMatrix& matrix = matrices()[index];
    const TensorView<float> whole = slice(slots_[index % slots_.size()], 0, matrix.size);
    direction_into_whole(matrix, input, whole);
    std::vector<Request>& requests = arriving_[index % slots_.size()];
    requests.clear();
    for (const RowBlock& block : matrix.blocks) {
      requests.push_back(gather_in_place(communicator(), Purpose::optimizer, tables_.rows(block.rows, block.cols),
                                         slice(whole, block.offset, block.size()),
                                         {"gather of rows", matrix.spec->name, "step"}));
    }
  }

  RowTables tables_;
  std::size_t ahead_;
  std::vector<Tensor<float>> slots_;
  std::vector<std::vector<Request>> arriving_;  ///< by slot
};

}  // namespace

std::unique_ptr<Optimizer> make_gathered_muon(ShardedModel& model, std::vector<ParameterView> views,
                                              const MuonOptions& options, int workers, CollectiveAlgorithm algorithm,
                                              std::int64_t ahead) {
  return std::make_unique<GatheredMuon>(model, std::move(views), options, workers, algorithm, ahead);
}

}  // namespace matrixfsdp::baselines

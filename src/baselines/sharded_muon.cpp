#include <algorithm>
#include <utility>

#include "baselines/row_muon.hpp"
#include "baselines/sharded_iteration.hpp"

namespace matrixfsdp::baselines {
namespace {

/// fsdp2: rows stay where they are, and the products of each Newton-Schulz step communicate.
class ShardedMuon final : public RowMuon {
 public:
  ShardedMuon(ShardedModel& model, std::vector<ParameterView> views, const MuonOptions& options,
              CollectiveAlgorithm algorithm)
      : RowMuon(model, std::move(views), options), iteration_(communicator(), options.newton_schulz, algorithm) {
    std::int64_t largest = 0;
    for (const RowMatrix& matrix : matrices()) {
      largest = std::max(largest, matrix.local_size);
      for (const std::vector<MatrixPart>& parts : matrix.parts) {
        for (const MatrixPart& part : parts)
          iteration_.reserve(part.rows, part.cols);
      }
    }
    update_ = make_tensor<float>("rows of an update", largest);
  }

  ~ShardedMuon() override {
    if (interrupted()) abandon(iteration_.travelling());
  }
  ShardedMuon(const ShardedMuon&) = delete;
  ShardedMuon& operator=(const ShardedMuon&) = delete;

  [[nodiscard]] std::int64_t workspace_bytes() const override { return bytes_of(update_) + iteration_.bytes(); }

 private:
  void step_all(const StepInput& input, StepResult& result) override {
    for (const RowMatrix& matrix : matrices()) {
      const TensorView<float> update = slice(update_, 0, matrix.local_size);
      direction_into_rows(matrix, input, update);
      if (orthogonalize_rows(matrix, update, result)) {
        apply_rows(matrix, input, update, result);
        if (communicator().rank() == 0) {  // all of them together have done it once
          for (const std::vector<MatrixPart>& parts : matrix.parts)
            result.matrices_orthogonalized += static_cast<std::int64_t>(parts.size());
        }
      } else {
        result.failed.push_back(matrix.spec->name);
      }
    }
  }

  /// Each rank judges its own rows, so they tell each other; once for a parameter.
  bool orthogonalize_rows(const RowMatrix& matrix, const TensorView<float>& update, StepResult& result) {
    bool finite = true;
    for (std::size_t b = 0; b < matrix.blocks.size(); ++b) {
      const LocalRows* const rows = matrix.rows_of(b);
      for (const MatrixPart& part : matrix.parts[b]) {
        float* const first =
            rows == nullptr ? nullptr : update.data() + rows->place + part.offset - matrix.blocks[b].offset;
        const std::int64_t count = rows == nullptr ? 0 : rows->elements.size() / matrix.blocks[b].cols;
        const MatrixView<float> mine(first, count, part.cols, matrix.blocks[b].cols);
        finite = iteration_.run(mine, part.rows, matrix.spec->name, result.flops) && finite;
      }
    }
    const double bad = finite ? 0 : 1;
    double sum = 0;
    for (const double one :
         all_gather_value(communicator(), Purpose::optimizer, bad, {"status", matrix.spec->name, "step"}))
      sum += one;
    return sum == 0;
  }

  ShardedIteration iteration_;
  Tensor<float> update_;  ///< nothing of a parameter is applied before all its parts have succeeded
};

}  // namespace

std::unique_ptr<Optimizer> make_sharded_muon(ShardedModel& model, std::vector<ParameterView> views,
                                             const MuonOptions& options, CollectiveAlgorithm algorithm) {
  return std::make_unique<ShardedMuon>(model, std::move(views), options, algorithm);
}

}  // namespace matrixfsdp::baselines

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <matrixfsdp/fsdp/sharded_model.hpp>
#include <matrixfsdp/linalg/workers.hpp>
#include <matrixfsdp/optim/muon.hpp>
#include <matrixfsdp/optim/muon_phases.hpp>
#include <matrixfsdp/orthogonalize/many.hpp>
#include <matrixfsdp/plan/row_shards.hpp>

#include "optim/views.hpp"

namespace matrixfsdp::baselines {

/// Rows of one block that this rank holds.
struct LocalRows {
  std::size_t block = 0;
  Interval elements;       ///< of the parameter
  std::int64_t place = 0;  ///< in the rows of the parameter that this rank holds, one block after the other
  std::size_t view = 0;    ///< of the optimizer
};

/// A matrix parameter in row shards.
struct RowMatrix {
  const ParameterSpec* spec = nullptr;
  ParameterGroup group;
  std::vector<RowBlock> blocks;
  std::vector<std::vector<MatrixPart>> parts;  ///< by block
  std::vector<LocalRows> rows;                 ///< blocks of which this rank holds none are left out
  std::int64_t size = 0;
  std::int64_t local_size = 0;

  /// Rows of `block` that this rank holds; 0 where there are none.
  [[nodiscard]] const LocalRows* rows_of(std::size_t block) const;
};

/// Muon (optim/muon.hpp) on row shards: momentum and apply are element by element, on this rank's rows; how the whole
/// direction becomes its polar factor is the strategy's. Every rank steps every matrix, in the same order.
class RowMuon : public Optimizer {
 public:
  [[nodiscard]] const std::vector<ParameterView>& views() const final { return views_; }
  std::vector<StateView> state() final;
  [[nodiscard]] std::int64_t state_bytes() const final { return momentum_.bytes(); }
  StepResult step(const StepInput& input) final;

 protected:
  /// `views` are this rank's rows of the model's trainable matrices. Throws as Muon does. `workers` share the large
  /// products of a whole matrix as Muon's do, for the same bits.
  RowMuon(ShardedModel& model, std::vector<ParameterView> views, const MuonOptions& options, int workers = 1);

  /// Communicates, and steps all matrices.
  virtual void step_all(const StepInput& input, StepResult& result) = 0;

  /// Directions of this rank's rows to their places in the whole parameter.
  void direction_into_whole(const RowMatrix& matrix, const StepInput& input, const TensorView<float>& whole) const;
  /// ... or one after the other.
  void direction_into_rows(const RowMatrix& matrix, const StepInput& input, const TensorView<float>& updates) const;
  /// Momentum and weights of this rank's rows, from the orthogonalized direction.
  void apply_whole(const RowMatrix& matrix, const StepInput& input, const TensorView<float>& whole, StepResult& result);
  void apply_rows(const RowMatrix& matrix, const StepInput& input, const TensorView<float>& updates,
                  StepResult& result);
  /// All parts of a whole parameter, in place; false where one fails.
  bool orthogonalize_whole(const RowMatrix& matrix, const TensorView<float>& whole, StepResult& result);
  /// Room for orthogonalize_whole.
  void reserve(const RowMatrix& matrix);

  [[nodiscard]] const std::vector<RowMatrix>& matrices() const { return matrices_; }
  [[nodiscard]] Communicator& communicator() const { return communicator_; }
  [[nodiscard]] const MuonOptions& options() const { return options_; }
  /// A step has ended with an exception: messages may still arrive in its buffers, which must not be freed.
  [[nodiscard]] bool interrupted() const { return interrupted_; }
  [[nodiscard]] std::int64_t scratch_bytes() const { return workspace_.bytes(); }

 private:
  bool orthogonalize_parts(const RowMatrix& matrix, const TensorView<float>& whole, StepResult& result);
  void apply(const RowMatrix& matrix, const LocalRows& rows, const StepInput& input, const TensorView<float>& update);
  [[nodiscard]] MuonMomentum factors(const StepInput& input) const;

  Communicator& communicator_;
  MuonOptions options_;
  std::vector<ParameterView> views_;
  std::vector<RowMatrix> matrices_;
  detail::State momentum_;
  linalg::Workers workers_;
  NewtonSchulzWorkspace<float> workspace_;
  std::vector<OrthogonalizeTask<float>> tasks_;  ///< of one matrix: its parts
  bool interrupted_ = false;
};

/// Never frees `buffers`.
void abandon(std::vector<Tensor<float>> buffers);

/// Bytes of a tensor of float.
inline std::int64_t bytes_of(const Tensor<float>& tensor) {
  return static_cast<std::int64_t>(tensor.size() * sizeof(float));
}

/// The three of them; `algorithm` is that of gathers.
std::unique_ptr<Optimizer> make_sharded_muon(ShardedModel& model, std::vector<ParameterView> views,
                                             const MuonOptions& options, CollectiveAlgorithm algorithm);
std::unique_ptr<Optimizer> make_gathered_muon(ShardedModel& model, std::vector<ParameterView> views,
                                              const MuonOptions& options, int workers, CollectiveAlgorithm algorithm,
                                              std::int64_t ahead);
std::unique_ptr<Optimizer> make_exchanged_muon(ShardedModel& model, std::vector<ParameterView> views,
                                               const MuonOptions& options, int workers);

}  // namespace matrixfsdp::baselines

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/redistribute.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/plan/strategy.hpp>

#include "baselines/row_muon.hpp"

namespace matrixfsdp::baselines {
namespace {

/// A round: its matrices' rows on this rank, and the one that this rank orthogonalizes.
struct Round {
  std::vector<const RowMatrix*> by_rank;  ///< that the rank orthogonalizes; null: none
  std::vector<std::int64_t> places;       ///< of this rank's rows of by_rank[r]; its own matrix has none
  std::int64_t rows_size = 0;
  const RowMatrix* own = nullptr;
  bool failed = false;
};

/// Buffers of a round.
struct RoundBuffers {
  Tensor<float> rows;   ///< directions on their way to the ranks that orthogonalize them, then what came back
  Tensor<float> whole;  ///< this rank's matrix
  Request arriving;
  Request returning;
};

/// What a rank sends back instead of rows when a matrix has failed: the first element of each interval.
constexpr float failure = std::numeric_limits<float>::quiet_NaN();

/// fsdp2-alltoall: rows of each matrix go to one rank, which orthogonalizes it, and come back. The next round arrives
/// and the last one returns meanwhile.
class ExchangedMuon final : public RowMuon {
 public:
  ExchangedMuon(ShardedModel& model, std::vector<ParameterView> views, const MuonOptions& options, int workers)
      : RowMuon(model, std::move(views), options, workers),
        rank_(communicator().rank()),
        ranks_(communicator().size()),
        message_(message_elements(mpi::topology_of(communicator()))) {
    const OptimizerCost cost{options.newton_schulz.algorithm, options.newton_schulz.steps,
                             MatrixOptimizer::muon,           {},
                             options.newton_schulz.dtype,     1,
                             linalg::batches_products()};
    for (const auto& round : orthogonalizing_rounds(model.spec(), ranks_, cost))
      add_round(round);
    std::array<std::int64_t, rounds_in_flight> rows{};
    std::array<std::int64_t, rounds_in_flight> whole{};
    for (std::size_t k = 0; k < rounds_.size(); ++k) {
      rows[k % rows.size()] = std::max(rows[k % rows.size()], rounds_[k].rows_size);
      if (rounds_[k].own == nullptr) continue;
      whole[k % whole.size()] = std::max(whole[k % whole.size()], rounds_[k].own->size);
      reserve(*rounds_[k].own);
    }
    for (std::size_t s = 0; s < buffers_.size(); ++s) {
      buffers_[s].rows = make_tensor<float>("rows that travel", rows[s]);
      buffers_[s].whole = make_tensor<float>("matrix of this rank", whole[s]);
    }
  }

  ~ExchangedMuon() override {
    for (RoundBuffers& buffers : buffers_) {
      if (interrupted()) abandon({buffers.rows, buffers.whole});
    }
  }
  ExchangedMuon(const ExchangedMuon&) = delete;
  ExchangedMuon& operator=(const ExchangedMuon&) = delete;

  [[nodiscard]] std::int64_t workspace_bytes() const override {
    std::int64_t bytes = scratch_bytes();
    for (const RoundBuffers& buffers : buffers_)
      bytes += bytes_of(buffers.rows) + bytes_of(buffers.whole);
    return bytes;
  }

 private:
  void add_round(const std::vector<std::int64_t>& indices) {
    Round round;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::int64_t index = indices[static_cast<std::size_t>(rank)];
      const RowMatrix* matrix = index < 0 ? nullptr : &matrices()[static_cast<std::size_t>(index)];
      round.by_rank.push_back(matrix);
      round.places.push_back(round.rows_size);
      if (matrix == nullptr) continue;
      if (rank == rank_)
        round.own = matrix;
      else
        round.rows_size += matrix->local_size;
    }
    rounds_.push_back(std::move(round));
  }

  void step_all(const StepInput& input, StepResult& result) override {
    for (std::size_t k = 0; k < rounds_.size(); ++k) {
      if (k == 0) start(0, input);
      if (k + 1 < rounds_.size()) start(k + 1, input);
      buffers_of(k).arriving.wait();
      orthogonalize_own(k, result);
      give_back(k);
      if (k > 0) finish(k - 1, input, result);
    }
    if (!rounds_.empty()) finish(rounds_.size() - 1, input, result);
  }

  RoundBuffers& buffers_of(std::size_t k) { return buffers_[k % buffers_.size()]; }

  /// This rank's rows of the matrix of `rank`.
  TensorView<float> rows_for(std::size_t k, int rank) {
    const Round& round = rounds_[k];
    const auto r = static_cast<std::size_t>(rank);
    return slice(buffers_of(k).rows, round.places[r], round.by_rank[r]->local_size);
  }

  void start(std::size_t k, const StepInput& input) {
    const Round& round = rounds_[k];
    for (int rank = 0; rank < ranks_; ++rank) {
      const RowMatrix* const matrix = round.by_rank[static_cast<std::size_t>(rank)];
      if (matrix == nullptr) continue;
      if (rank == rank_)
        direction_into_whole(*matrix, input, buffers_of(k).whole);
      else
        direction_into_rows(*matrix, input, rows_for(k, rank));
    }
    buffers_of(k).arriving = exchange(k, true);
  }

  void give_back(std::size_t k) { buffers_of(k).returning = exchange(k, false); }

  /// Rows between this rank and the others: to those that orthogonalize them, or back.
  Request exchange(std::size_t k, bool to_owners) {
    const std::vector<PeerElements<float>> theirs = rows_of_others(k);
    const std::vector<PeerElements<float>> mine = intervals_of_own(k);
    const auto& from = to_owners ? theirs : mine;
    std::vector<PeerElements<const float>> sends;
    for (const PeerElements<float>& one : from)
      sends.push_back({one.peer, one.values});
    return redistribute(communicator(), Purpose::optimizer, sends, to_owners ? mine : theirs,
                        {to_owners ? "rows to their rank" : "rows back", "", "step"}, message_);
  }

  /// This rank's rows of other ranks' matrices, block by block.
  std::vector<PeerElements<float>> rows_of_others(std::size_t k) {
    std::vector<PeerElements<float>> list;
    for (int i = 1; i < ranks_; ++i) {
      const int owner = (rank_ + i) % ranks_;
      const RowMatrix* const matrix = rounds_[k].by_rank[static_cast<std::size_t>(owner)];
      if (matrix == nullptr) continue;
      const TensorView<float> rows = rows_for(k, owner);
      for (const LocalRows& one : matrix->rows)
        list.push_back({owner, slice(rows, one.place, one.elements.size())});
    }
    return list;
  }

  /// Other ranks' rows of this rank's matrix, block by block.
  std::vector<PeerElements<float>> intervals_of_own(std::size_t k) {
    std::vector<PeerElements<float>> list;
    const RowMatrix* const own = rounds_[k].own;
    for (int i = 1; own != nullptr && i < ranks_; ++i) {
      const int peer = (rank_ + i) % ranks_;
      for (const RowBlock& block : own->blocks) {
        const Interval elements = row_elements(block, peer, ranks_);
        if (!elements.empty()) list.push_back({peer, slice(buffers_of(k).whole, elements.begin, elements.size())});
      }
    }
    return list;
  }

  void orthogonalize_own(std::size_t k, StepResult& result) {
    Round& round = rounds_[k];
    if (round.own == nullptr) return;
    round.failed = !orthogonalize_whole(*round.own, slice(buffers_of(k).whole, 0, round.own->size), result);
    if (!round.failed) return;
    for (const PeerElements<float>& one : intervals_of_own(k))
      Kokkos::deep_copy(slice(one.values, 0, 1), failure);
  }

  void finish(std::size_t k, const StepInput& input, StepResult& result) {
    const Round& round = rounds_[k];
    buffers_of(k).returning.wait();
    for (int rank = 0; rank < ranks_; ++rank) {
      const RowMatrix* const matrix = round.by_rank[static_cast<std::size_t>(rank)];
      if (matrix == nullptr) continue;
      const bool failed = rank == rank_ ? round.failed : has_failed(*matrix, rows_for(k, rank));
      if (failed)
        result.failed.push_back(matrix->spec->name);
      else if (rank == rank_)
        apply_whole(*matrix, input, buffers_of(k).whole, result);
      else
        apply_rows(*matrix, input, rows_for(k, rank), result);
    }
  }

  static bool has_failed(const RowMatrix& matrix, const TensorView<float>& rows) {
    if (matrix.rows.empty()) return false;
    float first = 0;
    Kokkos::deep_copy(Kokkos::View<float, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(&first),
                      Kokkos::subview(rows, 0));
    return std::isnan(first);
  }

  int rank_;
  int ranks_;
  std::int64_t message_;  ///< elements of a message among them
  std::vector<Round> rounds_;
  std::array<RoundBuffers, rounds_in_flight> buffers_;
};

}  // namespace

std::unique_ptr<Optimizer> make_exchanged_muon(ShardedModel& model, std::vector<ParameterView> views,
                                               const MuonOptions& options, int workers) {
  return std::make_unique<ExchangedMuon>(model, std::move(views), options, workers);
}

}  // namespace matrixfsdp::baselines

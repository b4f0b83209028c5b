#include "fsdp/row_norm.hpp"

#include <algorithm>

#include <matrixfsdp/comm/redistribute.hpp>
#include <matrixfsdp/core/error.hpp>

#include "fsdp/square_sums.hpp"

namespace matrixfsdp {
namespace {

/// Of one parameter, by first element.
using Segments = std::vector<Segment>;

std::vector<Segments> segments_of(const ShardedModel& model, std::size_t unit) {
  std::vector<Segments> segments(model.spec().units[unit].parameters.size());
  for (const Segment& segment : model.plan().units[unit].gradients.segments)
    segments[segment.parameter].push_back(segment);
  for (Segments& one : segments) {
    std::sort(one.begin(), one.end(),
              [](const Segment& a, const Segment& b) { return a.elements.begin < b.elements.begin; });
  }
  return segments;
}

std::int64_t block_at_or_after(std::int64_t element) {
  return (element + norm_block - 1) / norm_block * norm_block;
}

std::int64_t blocks_that_begin_in(Interval elements) {
  return (block_at_or_after(elements.end) - block_at_or_after(elements.begin)) / norm_block;
}

/// What this rank sums, sends and receives.
class RowBlocks {
 public:
  explicit RowBlocks(const ShardedModel& model)
      : model_(model), first_(model.shard_group().first), rank_(model.communicator().rank() - first_) {
    for (std::size_t u = 0; u < model.unit_count(); ++u) {
      for (const Segments& segments : segments_of(model, u))
        add(segments);
    }
  }

  std::vector<double> sums() {
    const Tensor<float> staging =
        make_tensor<float>("norm blocks across ranks", norm_block * static_cast<std::int64_t>(crossing_.size()));
    for (std::size_t c = 0; c < crossing_.size(); ++c)
      collect(crossing_[c], slice(staging, static_cast<std::int64_t>(c) * norm_block, norm_block));
    Request request =
        redistribute(model_.communicator(), Purpose::clip, sends_, receives_, {"norm blocks", "", "step"});
    try {
      request.wait();
    } catch (const Error&) {
      // Messages may still arrive there. Without memory to keep it, ending the program is the safe way.
      new Tensor<float>(staging);  // NOLINT(bugprone-unhandled-exception-at-new)
      throw;
    }
    std::vector<double> result;
    std::size_t next = 0;
    for (const auto& [whole, crosses] : parts_) {
      const std::vector<double> blocks = block_square_sums(whole);
      result.insert(result.end(), blocks.begin(), blocks.end());
      if (!crosses) continue;
      const auto begin = static_cast<std::int64_t>(next) * norm_block;
      result.push_back(block_square_sums(slice(staging, begin, crossing_[next++].size)).front());
    }
    return result;
  }

 private:
  /// A block of several segments that begins on this rank.
  struct Crossing {
    TensorView<float> own;
    std::int64_t begin = 0;
    std::int64_t size = 0;
    std::vector<Segment> rest;
    std::vector<TensorView<float>> rest_here;  ///< empty where another rank has it
  };
  struct Part {
    TensorView<float> whole_blocks;
    bool crosses = false;
  };

  void add(const Segments& segments) {
    const std::size_t first_view = view_;
    for (std::size_t i = 0; i < segments.size(); ++i) {
      if (segments[i].rank != rank_) continue;
      send_head(segments, i);
      add_blocks(segments, i, first_view);
      ++view_;
    }
  }

  /// This rank's gradient of segments[i], one of its own.
  [[nodiscard]] TensorView<float> gradient_of(const Segments& segments, std::size_t i, std::size_t first_view) const {
    const auto before = std::count_if(segments.begin(), segments.begin() + static_cast<std::ptrdiff_t>(i),
                                      [this](const Segment& segment) { return segment.rank == rank_; });
    return model_.trainable()[first_view + static_cast<std::size_t>(before)].gradient;
  }

  /// Elements before the first block that begins in the segment.
  void send_head(const Segments& segments, std::size_t i) {
    const Interval elements = segments[i].elements;
    const std::int64_t head = std::min(elements.end, block_at_or_after(elements.begin)) - elements.begin;
    if (head == 0) return;
    const std::int64_t block = elements.begin / norm_block * norm_block;
    std::size_t holder = i;
    while (segments[holder].elements.begin > block)
      --holder;
    if (segments[holder].rank == rank_) return;
    sends_.push_back({first_ + segments[holder].rank, slice(model_.trainable()[view_].gradient, 0, head)});
  }

  void add_blocks(const Segments& segments, std::size_t i, std::size_t first_view) {
    const Interval elements = segments[i].elements;
    const std::int64_t count = segments.back().elements.end;
    const std::int64_t begin = block_at_or_after(elements.begin);
    if (begin >= elements.end) return;
    const std::int64_t last = (elements.end - 1) / norm_block * norm_block;
    const std::int64_t last_end = std::min(count, last + norm_block);
    const bool crosses = last_end > elements.end;
    const TensorView<float> gradient = model_.trainable()[view_].gradient;
    parts_.push_back({slice(gradient, begin - elements.begin, (crosses ? last : elements.end) - begin), crosses});
    if (!crosses) return;
    Crossing crossing{slice(gradient, last - elements.begin, elements.end - last), last, last_end - last, {}, {}};
    for (std::size_t k = i + 1; k < segments.size() && segments[k].elements.begin < last_end; ++k) {
      crossing.rest.push_back(segments[k]);
      crossing.rest_here.push_back(segments[k].rank == rank_ ? gradient_of(segments, k, first_view)
                                                             : TensorView<float>());
    }
    crossing_.push_back(std::move(crossing));
  }

  void collect(const Crossing& crossing, const TensorView<float>& block) {
    Kokkos::deep_copy(slice(block, 0, static_cast<std::int64_t>(crossing.own.size())), crossing.own);
    for (std::size_t k = 0; k < crossing.rest.size(); ++k) {
      const Interval part = intersect(crossing.rest[k].elements, {crossing.begin, crossing.begin + crossing.size});
      const TensorView<float> place = slice(block, part.begin - crossing.begin, part.size());
      if (crossing.rest[k].rank == rank_) {
        Kokkos::deep_copy(place, slice(crossing.rest_here[k], 0, part.size()));
      } else {
        receives_.push_back({first_ + crossing.rest[k].rank, place});
      }
    }
  }

  const ShardedModel& model_;
  int first_;
  int rank_;
  std::size_t view_ = 0;
  std::vector<Part> parts_;
  std::vector<Crossing> crossing_;
  std::vector<PeerElements<const float>> sends_;
  std::vector<PeerElements<float>> receives_;
};

}  // namespace

std::vector<double> row_square_sums(const ShardedModel& model) {
  return RowBlocks(model).sums();
}

double fold_row_sums(const ShardedModel& model, const std::vector<std::vector<double>>& sums) {
  std::vector<std::size_t> cursor(sums.size(), 0);
  double total = 0;
  for (std::size_t u = 0; u < model.unit_count(); ++u) {
    for (const Segments& segments : segments_of(model, u)) {
      double sum = 0;
      for (const Segment& segment : segments) {
        const auto rank = static_cast<std::size_t>(segment.rank);
        for (std::int64_t b = 0; b < blocks_that_begin_in(segment.elements); ++b)
          sum += sums[rank].at(cursor[rank]++);
      }
      total += sum;
    }
  }
  return total;
}

}  // namespace matrixfsdp

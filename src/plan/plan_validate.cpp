#include <string>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/plan.hpp>

#include "plan/layout.hpp"

namespace matrixfsdp {
namespace {

std::string text(Interval interval) {
  return fmt::format("[{}, {})", interval.begin, interval.end);
}

/// One buffer of one unit against its specification.
class ShardCheck {
 public:
  ShardCheck(const UnitSpec& unit, const Plan& plan, const MatrixShard& shard, bool gradients)
      : unit_(unit), plan_(plan), shard_(shard), gradients_(gradients) {}

  void run() const {
    check_sizes();
    check_offsets();
    check_intervals();
    check_segments();
  }

 private:
  template <class... Arguments>
  [[noreturn]] void fail(fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    throw ContractError(fmt::format("plan of unit {}, {}: {}", unit_.name, gradients_ ? "gradients" : "weights",
                                    fmt::format(format, std::forward<Arguments>(arguments)...)));
  }

  [[nodiscard]] bool left_out(std::size_t parameter) const { return gradients_ && unit_.parameters[parameter].frozen; }

  void check_sizes() const {
    const auto ranks = static_cast<std::size_t>(plan_.world_size);
    if (shard_.owned.size() != ranks || shard_.tails.size() != ranks) {
      fail("{} owned and {} tail intervals, expected one of each for {} ranks", shard_.owned.size(),
           shard_.tails.size(), ranks);
    }
    if (shard_.parameter_offsets.size() != unit_.parameters.size()) {
      fail("{} parameter offsets, expected {}", shard_.parameter_offsets.size(), unit_.parameters.size());
    }
    std::int64_t expected = 0;
    for (std::size_t p = 0; p < unit_.parameters.size(); ++p) {
      if (!left_out(p)) expected += element_count(unit_.parameters[p].shape);
    }
    if (shard_.size != expected) fail("size {}, expected the {} elements of its parameters", shard_.size, expected);
  }

  void check_offsets() const {
    for (std::size_t p = 0; p < unit_.parameters.size(); ++p) {
      const std::int64_t offset = shard_.parameter_offsets[p];
      const std::int64_t count = element_count(unit_.parameters[p].shape);
      if (left_out(p)) {
        if (offset != -1) fail("offset {} of frozen parameter {}, expected -1", offset, unit_.parameters[p].name);
      } else if (offset < 0 || offset > shard_.size - count) {
        fail("offset {} of parameter {}, expected 0 to {}", offset, unit_.parameters[p].name, shard_.size - count);
      }
    }
  }

  /// Owned intervals rank after rank from 0, then tail intervals rank after rank to the end.
  void check_intervals() const {
    std::int64_t end = 0;
    for (const std::vector<Interval>* intervals : {&shard_.owned, &shard_.tails}) {
      for (std::size_t rank = 0; rank < intervals->size(); ++rank) {
        const Interval interval = (*intervals)[rank];
        if (interval.begin != end || interval.end < end || interval.end > shard_.size) {
          fail("{} interval {} of rank {}, expected one that begins at {} and ends by {}",
               intervals == &shard_.owned ? "owned" : "tail", text(interval), rank, end, shard_.size);
        }
        end = interval.end;
      }
    }
    if (end != shard_.size) fail("intervals end at {}, expected {}", end, shard_.size);
    if (!plan_.replicated) return;
    for (int rank = 0; rank < plan_.world_size; ++rank) {
      const Interval chunk = fold_chunk(shard_.size, rank, plan_.world_size);
      const Interval owned = shard_.owned[static_cast<std::size_t>(rank)];
      if (owned != chunk) fail("interval {} of rank {}, expected the fold's chunk {}", text(owned), rank, text(chunk));
    }
  }

  void check_segments() const {
    std::int64_t end = 0;
    for (const Segment& segment : shard_.segments) {
      if (segment.parameter >= unit_.parameters.size() || left_out(segment.parameter)) {
        fail("segment at {} of parameter {}, expected one that the buffer holds", segment.offset, segment.parameter);
      }
      if (segment.offset != end || segment.elements.empty()) {
        fail("segment of {} elements at {}, expected at least one element at {}", segment.elements.size(),
             segment.offset, end);
      }
      check_place(segment);
      check_cut(segment);
      end = segment.offset + segment.elements.size();
    }
    if (end != shard_.size) fail("segments end at {}, expected {}", end, shard_.size);
  }

  void check_place(const Segment& segment) const {
    const ParameterSpec& parameter = unit_.parameters[segment.parameter];
    const std::int64_t count = element_count(parameter.shape);
    if (segment.elements.begin < 0 || segment.elements.end > count) {
      fail("elements {} of {}, expected a part of [0, {})", text(segment.elements), parameter.name, count);
    }
    const std::int64_t start = shard_.parameter_offsets[segment.parameter];
    if (segment.offset != start + segment.elements.begin) {
      fail("elements {} of {} at {}, expected {}", text(segment.elements), parameter.name, segment.offset,
           start + segment.elements.begin);
    }
    if (segment.rank < 0 || segment.rank >= plan_.world_size) {
      fail("rank {} of {}, expected 0 to {}", segment.rank, parameter.name, plan_.world_size - 1);
    }
    const bool tail = !plan_.replicated && kind_of(parameter) == ParameterKind::tail;
    const Interval home = (tail ? shard_.tails : shard_.owned)[static_cast<std::size_t>(segment.rank)];
    if (segment.offset < home.begin || segment.offset + segment.elements.size() > home.end) {
      fail("elements {} of {} at {}, expected them in the {} interval {} of rank {}", text(segment.elements),
           parameter.name, segment.offset, tail ? "tail" : "owned", text(home), segment.rank);
    }
  }

  void check_cut(const Segment& segment) const {
    if (plan_.replicated) return;
    const ParameterSpec& parameter = unit_.parameters[segment.parameter];
    if (kind_of(parameter) == ParameterKind::matrix) {
      const std::int64_t count = element_count(parameter.shape);
      if (segment.elements.size() != count) {
        fail("elements {} of matrix {}, expected all {} on one rank", text(segment.elements), parameter.name, count);
      }
    } else if (segment.elements.begin % norm_block != 0) {
      fail("tail {} cut at element {}, expected a multiple of {}", parameter.name, segment.elements.begin, norm_block);
    }
  }

  const UnitSpec& unit_;
  const Plan& plan_;
  const MatrixShard& shard_;
  bool gradients_;
};

/// The optimizer works on weight and gradient segments of equal ranges: those of trainable parameters must be the same.
void check_same_segments(const UnitSpec& unit, const UnitPlan& plan) {
  std::size_t next = 0;
  const std::vector<Segment>& gradients = plan.gradients.segments;
  for (const Segment& weight : plan.weights.segments) {
    if (unit.parameters[weight.parameter].frozen) continue;
    const bool same = next < gradients.size() && gradients[next].parameter == weight.parameter &&
                      gradients[next].elements == weight.elements && gradients[next].rank == weight.rank;
    if (!same) {
      throw ContractError(fmt::format(
          "plan of unit {}: weights {} of {} on rank {}, expected a gradient segment of the same elements and rank",
          unit.name, text(weight.elements), unit.parameters[weight.parameter].name, weight.rank));
    }
    ++next;
  }
}

}  // namespace

void validate(const ModelSpec& model, const Plan& plan) {
  if (plan.world_size < 1) throw ContractError(fmt::format("plan for W = {}: expected at least 1", plan.world_size));
  if (plan.units.size() != model.units.size()) {
    throw ContractError(
        fmt::format("plan of {} units, expected the model's {}", plan.units.size(), model.units.size()));
  }
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    if (plan.row_shards) {
      detail::validate_rows(model.units[u], plan.units[u], plan.world_size);
      continue;
    }
    ShardCheck(model.units[u], plan, plan.units[u].weights, false).run();
    ShardCheck(model.units[u], plan, plan.units[u].gradients, true).run();
    if (!plan.replicated) check_same_segments(model.units[u], plan.units[u]);
  }
}

}  // namespace matrixfsdp

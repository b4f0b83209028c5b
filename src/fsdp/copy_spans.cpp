#include "fsdp/copy_spans.hpp"

#include <algorithm>
#include <vector>

namespace matrixfsdp {
namespace {

constexpr std::int64_t longest = 64 * 1024;  // what one team of threads copies

template <bool Out>
void copy(const Tensor<CopySpan>& spans, const float* from, float* to) {
  using Policy = Kokkos::TeamPolicy<ExecutionSpace>;
  const auto count = static_cast<int>(spans.size());
  if (count == 0) return;
  const CopySpan* const list = spans.data();
  Kokkos::parallel_for(
      "matrixfsdp::fsdp::copy_spans", Policy(count, Kokkos::AUTO), KOKKOS_LAMBDA(const Policy::member_type& team) {
        const CopySpan span = list[team.league_rank()];
        const float* const source = from + (Out ? span.travels : span.computes);
        float* const target = to + (Out ? span.computes : span.travels);
        Kokkos::parallel_for(Kokkos::TeamVectorRange(team, span.count),
                             [=](const std::int64_t i) { target[i] = source[i]; });
      });
  Kokkos::fence();
}

}  // namespace

Tensor<CopySpan> copy_spans(const MatrixShard& shard) {
  std::vector<CopySpan> list;
  for (const Segment& segment : shard.segments) {
    const std::int64_t place = shard.parameter_offsets[segment.parameter] + segment.elements.begin;
    for (std::int64_t begin = 0; begin < segment.elements.size(); begin += longest) {
      list.push_back({segment.offset + begin, place + begin, std::min(longest, segment.elements.size() - begin)});
    }
  }
  Tensor<CopySpan> spans = make_tensor<CopySpan>("copy spans", static_cast<std::int64_t>(list.size()));
  std::copy(list.begin(), list.end(), spans.data());
  return spans;
}

void copy_out(const Tensor<CopySpan>& spans, const TensorView<float>& travels, const TensorView<float>& computes) {
  copy<true>(spans, travels.data(), computes.data());
}

void copy_in(const Tensor<CopySpan>& spans, const TensorView<float>& computes, const TensorView<float>& travels) {
  copy<false>(spans, computes.data(), travels.data());
}

}  // namespace matrixfsdp

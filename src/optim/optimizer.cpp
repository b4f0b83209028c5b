#include <iterator>
#include <utility>

#include <matrixfsdp/optim/optimizer.hpp>

namespace matrixfsdp {

void append(StepResult part, StepResult& whole) {
  whole.matrices_orthogonalized += part.matrices_orthogonalized;
  whole.flops += part.flops;
  std::move(part.failed.begin(), part.failed.end(), std::back_inserter(whole.failed));
  std::move(part.seconds.begin(), part.seconds.end(), std::back_inserter(whole.seconds));
}

}  // namespace matrixfsdp

#include <matrixfsdp/linalg/bfloat16.hpp>

namespace matrixfsdp::linalg {

std::string bfloat16_obstacle() {
  return "this build has no oneDNN (MATRIXFSDP_ENABLE_ONEDNN), which multiplies bfloat16";
}

std::string onednn_description() {
  return "oneDNN: not built in";
}

// None of the others is ever reached: the constructor throws.
struct Bfloat16Products::Implementation {};

Bfloat16Products::Bfloat16Products() {
  require_bfloat16("products of bfloat16");
}
Bfloat16Products::~Bfloat16Products() = default;
Bfloat16Products::Bfloat16Products(Bfloat16Products&&) noexcept = default;
Bfloat16Products& Bfloat16Products::operator=(Bfloat16Products&&) noexcept = default;

void Bfloat16Products::gemm(Op, Op, MatrixView<const bfloat16>, MatrixView<const bfloat16>, bool, MatrixView<float>) {}

void Bfloat16Products::gemm(Op, Op, MatrixView<const bfloat16>, MatrixView<const bfloat16>, MatrixView<bfloat16>) {}

std::int64_t Bfloat16Products::bytes() const {
  return 0;
}

}  // namespace matrixfsdp::linalg

#include <algorithm>
#include <array>
#include <map>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <oneapi/dnnl/dnnl.hpp>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/linalg/bfloat16.hpp>

#include "linalg/host/wait_for_kernels.hpp"

namespace matrixfsdp::linalg {
namespace {

using dnnl::memory;

bool has_native_bfloat16() {
  const auto all = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (all & needed) == needed;
}

/// An operand as oneDNN sees it: extents after `op`, and the elements between neighbours.
struct Operand {
  std::int64_t rows;
  std::int64_t cols;
  std::int64_t row_stride;
  std::int64_t col_stride;

  [[nodiscard]] memory::desc describe(memory::data_type type) const {
    return {{rows, cols}, type, memory::dims{row_stride, col_stride}};
  }
  [[nodiscard]] auto key() const { return std::array<std::int64_t, 4>{rows, cols, row_stride, col_stride}; }
};

template <class T>
Operand operand(const char* name, Op op, const MatrixView<T>& matrix) {
  if (matrix.rows > 1 && matrix.stride < matrix.cols) {
    throw ContractError(fmt::format("bfloat16 gemm: {} is {}x{} with stride {}: expected at least {}", name,
                                    matrix.rows, matrix.cols, matrix.stride, matrix.cols));
  }
  const std::int64_t stride = std::max(matrix.stride, matrix.cols);
  if (op == Op::none) return {matrix.rows, matrix.cols, stride, 1};
  return {matrix.cols, matrix.rows, 1, stride};
}

enum class Result { rounded, plain, added };

/// What oneDNN has made for one product.
struct Made {
  dnnl::matmul product;
  memory a;
  memory b;
  memory c;
  memory scratch;
  std::int64_t scratch_bytes = 0;
  std::unordered_map<int, memory> arguments;
};

dnnl::matmul::primitive_desc choose(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                                    const memory::desc& c, bool add) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (add) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  return {engine, a, b, c, attributes};
#else
  return {dnnl::matmul::desc(a, b, c), attributes, engine};
#endif
}

using Key = std::pair<std::array<std::array<std::int64_t, 4>, 3>, Result>;

}  // namespace

std::string bfloat16_obstacle() {
  if (has_native_bfloat16()) return "";
  return "this processor multiplies no bfloat16, expected one with AVX512_BF16 or AMX";
}

std::string onednn_description() {
  const dnnl_version_t* const version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{} ({})", version->major, version->minor, version->patch,
                     has_native_bfloat16() ? "native bfloat16" : "no native bfloat16");
}

struct Bfloat16Products::Implementation {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::map<Key, Made> made;
  Tensor<std::uint8_t> scratch;

  Made& made_for(const Operand& a, const Operand& b, const Operand& c, Result result);
  void run(const Operand& a, const bfloat16* a_data, const Operand& b, const bfloat16* b_data, const Operand& c,
           void* c_data, Result result);
};

Made& Bfloat16Products::Implementation::made_for(const Operand& a, const Operand& b, const Operand& c, Result result) {
  const Key key{{a.key(), b.key(), c.key()}, result};
  const auto found = made.find(key);
  if (found != made.end()) return found->second;
  const memory::desc of_a = a.describe(memory::data_type::bf16);
  const memory::desc of_b = b.describe(memory::data_type::bf16);
  const memory::desc of_c = c.describe(result == Result::rounded ? memory::data_type::bf16 : memory::data_type::f32);
  const dnnl::matmul::primitive_desc chosen = choose(engine, of_a, of_b, of_c, result == Result::added);
  Made one{dnnl::matmul(chosen), {of_a, engine, nullptr}, {of_b, engine, nullptr}, {of_c, engine, nullptr}, {}, 0, {}};
  one.scratch = memory(chosen.scratchpad_desc(), engine, nullptr);
  one.scratch_bytes = static_cast<std::int64_t>(chosen.scratchpad_desc().get_size());
  one.arguments = {
      {DNNL_ARG_SRC, one.a}, {DNNL_ARG_WEIGHTS, one.b}, {DNNL_ARG_DST, one.c}, {DNNL_ARG_SCRATCHPAD, one.scratch}};
  if (one.scratch_bytes > static_cast<std::int64_t>(scratch.extent(0))) {
    scratch = make_tensor<std::uint8_t>("matrixfsdp::linalg::bfloat16_scratch", one.scratch_bytes);
  }
  return made.emplace(key, std::move(one)).first->second;
}

void Bfloat16Products::Implementation::run(const Operand& a, const bfloat16* a_data, const Operand& b,
                                           const bfloat16* b_data, const Operand& c, void* c_data, Result result) {
  if (a.rows != c.rows || b.cols != c.cols || a.cols != b.rows) {
    throw ContractError(fmt::format("bfloat16 gemm: op(A) {}x{} times op(B) {}x{} does not fit C {}x{}", a.rows, a.cols,
                                    b.rows, b.cols, c.rows, c.cols));
  }
  if (c.rows == 0 || c.cols == 0) return;
  detail::wait_for_kernels();
  if (a.cols == 0) {
    const std::size_t element = result == Result::rounded ? sizeof(bfloat16) : sizeof(float);
    for (std::int64_t row = 0; row < c.rows && result != Result::added; ++row)
      std::fill_n(static_cast<std::uint8_t*>(c_data) + row * c.row_stride * static_cast<std::int64_t>(element),
                  static_cast<std::size_t>(c.cols) * element, std::uint8_t{0});
    return;
  }
  Made& one = made_for(a, b, c, result);
  // oneDNN's handles are not const, its inputs are only read.
  one.a.set_data_handle(const_cast<bfloat16*>(a_data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  one.b.set_data_handle(const_cast<bfloat16*>(b_data));  // NOLINT(cppcoreguidelines-pro-type-const-cast)
  one.c.set_data_handle(c_data);
  one.scratch.set_data_handle(scratch.data());
  one.product.execute(stream, one.arguments);
  stream.wait();
}

Bfloat16Products::Bfloat16Products() {
  require_bfloat16("products of bfloat16");
  implementation_ = std::make_unique<Implementation>();
}
Bfloat16Products::~Bfloat16Products() = default;
Bfloat16Products::Bfloat16Products(Bfloat16Products&&) noexcept = default;
Bfloat16Products& Bfloat16Products::operator=(Bfloat16Products&&) noexcept = default;

void Bfloat16Products::gemm(Op op_a, Op op_b, MatrixView<const bfloat16> a, MatrixView<const bfloat16> b, bool add,
                            MatrixView<float> c) {
  implementation_->run(operand("A", op_a, a), a.data, operand("B", op_b, b), b.data, operand("C", Op::none, c), c.data,
                       add ? Result::added : Result::plain);
}

void Bfloat16Products::gemm(Op op_a, Op op_b, MatrixView<const bfloat16> a, MatrixView<const bfloat16> b,
                            MatrixView<bfloat16> c) {
  implementation_->run(operand("A", op_a, a), a.data, operand("B", op_b, b), b.data, operand("C", Op::none, c), c.data,
                       Result::rounded);
}

std::int64_t Bfloat16Products::bytes() const {
  return static_cast<std::int64_t>(implementation_->scratch.extent(0));
}

}  // namespace matrixfsdp::linalg

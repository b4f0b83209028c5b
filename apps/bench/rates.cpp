#include "apps/bench/rates.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/linalg/blas.hpp>
#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "apps/bench/benchmark.hpp"

namespace matrixfsdp::bench {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// How many matrix parts of each shape the model has.
std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> shapes_of(const ModelSpec& model) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> shapes;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (parameter.frozen || kind_of(parameter) != ParameterKind::matrix) continue;
      for (const MatrixPart& part : matrix_parts(parameter))
        ++shapes[{part.rows, part.cols}];
    }
  }
  return shapes;
}

/// c <- a b^T: m x k by k x n.
class Product {
 public:
  Product(std::int64_t m, std::int64_t n, std::int64_t k)
      : a_(make_tensor<float>("a", m * k)),
        b_(make_tensor<float>("b", n * k)),
        c_(make_tensor<float>("c", m * n)),
        m_(m),
        n_(n),
        k_(k) {
    Kokkos::deep_copy(a_, 0.5F);
    Kokkos::deep_copy(b_, 0.25F);
  }

  void run() const {
    linalg::gemm<float>(linalg::Op::none, linalg::Op::transpose, 1.0F, MatrixView<float>(a_.data(), m_, k_),
                        MatrixView<float>(b_.data(), n_, k_), 0.0F, MatrixView<float>(c_.data(), m_, n_));
    Kokkos::fence();
  }

 private:
  Tensor<float> a_;
  Tensor<float> b_;
  Tensor<float> c_;
  std::int64_t m_;
  std::int64_t n_;
  std::int64_t k_;
};

MachineLink link_of(const LinkModel& model) {
  const auto rate = [](double beta) { return 1 / std::max(beta, 1e-15); };
  return {model.alpha_seconds, rate(model.beta_seconds_per_byte), rate(model.node_beta_seconds_per_byte)};
}

}  // namespace

double orthogonalize_rate(Communicator& communicator, const ModelSpec& model, int steps) {
  NewtonSchulzWorkspace<float> workspace;
  double seconds = 0;
  double flops = 0;
  for (const auto& [shape, count] : shapes_of(model)) {
    const Tensor<float> values = make_tensor<float>("benchmark", shape.first * shape.second);
    const MatrixView<float> matrix(values.data(), shape.first, shape.second);
    for (std::int64_t i = 0; i < shape.first * shape.second; ++i)
      values.data()[i] = static_cast<float>((i * 7919) % 1009) - 504.0F;
    const NewtonSchulzOptions options{NewtonSchulzAlgorithm::automatic, nullptr, steps};
    std::int64_t of_one = 0;
    // As in a step all ranks begin together and have as much to do: what counts is when the last one has done it.
    const auto seconds_of = [&](int calls) {
      communicator.barrier({"benchmark rates", "", ""});
      const auto start = Clock::now();
      for (int call = 0; call < calls; ++call)
        of_one = orthogonalize<float>(matrix, matrix, options, workspace).flops;
      return slowest(communicator, since(start)) / calls;
    };
    seconds_of(1);  // touches pages
    const int calls = std::max(1, static_cast<int>(0.3 / seconds_of(1)));
    seconds += seconds_of(calls) * static_cast<double>(count);
    flops += static_cast<double>(of_one * count);
  }
  return seconds > 0 ? flops / seconds : 0;
}

double memory_rate(Communicator& communicator) {
  const std::vector<char> source(std::size_t{32} << 20, 1);
  std::vector<char> target(source.size());
  communicator.barrier({"benchmark rates", "", ""});
  const auto start = Clock::now();
  std::int64_t bytes = 0;
  do {
    std::memcpy(target.data(), source.data(), source.size());
    bytes += 2 * static_cast<std::int64_t>(source.size());
  } while (since(start) < 0.1);
  return 1 / slowest(communicator, since(start) / static_cast<double>(bytes));
}

double arrival_seconds(Communicator& communicator, const Topology& topology, const CollectiveProfile& links) {
  constexpr int calls = 40;
  const OperationLabel label{"benchmark rates", "", ""};
  const SegmentTable table = even_table(4096, communicator.size());
  const Unshard unshard =
      prepare_unshard(choose_unshard(table, topology, links).algorithm, table, topology, communicator.rank());
  const Tensor<float> buffer = make_zeros<float>("benchmark", table.size);
  const Product product(128, 256, 256);
  const auto seconds_of = [&](bool computes, bool gathers) {
    communicator.barrier(label);
    const auto start = Clock::now();
    for (int call = 0; call < calls; ++call) {
      if (computes) product.run();
      if (gathers) gather_in_place(communicator, Purpose::other, unshard, buffer, label).wait();
    }
    return slowest(communicator, since(start)) / calls;
  };
  seconds_of(true, true);  // touches pages
  const double both = seconds_of(true, true);
  return std::max(0.0, both - seconds_of(true, false) - seconds_of(false, true));
}

double product_rate(std::int64_t m, std::int64_t n, std::int64_t k) {
  const Product product(m, n, k);
  product.run();
  const auto start = Clock::now();
  std::int64_t count = 0;
  do {
    product.run();
    ++count;
  } while (since(start) < 0.2);
  return 2 * static_cast<double>(count * m * n * k) / since(start);
}

Machine machine_of(const Topology& topology, const CollectiveProfile& profile, const RankRates& rates) {
  Machine machine;
  machine.name = "this job";
  machine.nodes = profile.nodes;
  machine.ranks_per_node = std::max(1, topology.world_size() / std::max(1, profile.nodes));
  const LinkModel none;
  machine.inside = link_of(profile.inside.value_or(profile.between.value_or(none)));
  machine.between = link_of(profile.between.value_or(profile.inside.value_or(none)));
  machine.gemm_flops_per_second = std::max(1.0, rates.product_flops);
  machine.orthogonalize_flops_per_second = std::max(1.0, rates.orthogonalize_flops);
  machine.memory_bytes_per_second = rates.memory_bytes;
  machine.memory_bytes = 1e18;  // whether it fits is not asked
  return machine;
}

nlohmann::json balance_of(const Machine& machine) {
  const double link = (machine.nodes > 1 ? machine.between : machine.inside).bytes_per_second;
  return {{"kernel_gflops", 1e-9 * machine.orthogonalize_flops_per_second},
          {"link_mb_per_second", 1e-6 * link},
          {"kflop_per_byte", 1e-3 * machine.orthogonalize_flops_per_second / link}};
}

}  // namespace matrixfsdp::bench

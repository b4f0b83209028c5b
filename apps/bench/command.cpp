#include "apps/bench/command.hpp"

#include <CLI/CLI.hpp>

#include <matrixfsdp/plan/strategy.hpp>

namespace matrixfsdp::bench {

void add_backend(CLI::App& app, train::Backend& backend, mpi::GpuAware& gpu_aware) {
  app.add_option_function<std::string>(
         "--backend", [&backend](const std::string& value) { backend = train::parse_backend(value); },
         "What carries segments; auto: nccl where it can, else mpi")
      ->check(CLI::IsMember({"auto", "mpi", "nccl"}))
      ->default_str("auto");
  app.add_option_function<std::string>(
         "--gpu-aware-mpi", [&gpu_aware](const std::string& value) { gpu_aware = mpi::parse_gpu_aware(value); },
         "on: MPI is given addresses of tensors; off: of copies in host memory; auto: by what the library says")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->default_str("auto");
}

std::vector<std::string> strategy_names() {
  std::vector<std::string> names;
  for (const StrategyKind kind : strategy_kinds())
    names.emplace_back(name_of(kind));
  return names;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const MatrixOptimizer optimizer : matrix_optimizers())
    names.emplace_back(name_of(optimizer));
  return names;
}

}  // namespace matrixfsdp::bench

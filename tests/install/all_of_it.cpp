#include <cstdio>

#include <matrixfsdp/matrixfsdp.hpp>

// The whole library through the umbrella header, and a plan without MPI or Kokkos being started.
int main() {
  using namespace matrixfsdp;
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  const Plan plan = make_plan(model, 8);
  const PlanReport figures = report(model, plan, {});
  std::printf("%s", to_text(model, plan, figures).c_str());
  return figures.spare_ranks;
}

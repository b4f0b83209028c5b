#include <cstdio>

#include <matrixfsdp/plan/planner.hpp>
#include <matrixfsdp/plan/report.hpp>
#include <matrixfsdp/plan/transformer.hpp>

int main() {
  using namespace matrixfsdp;
  const ModelSpec model = transformer_model(transformer_from_name("gpt2:124m"));
  const Plan plan = make_plan(model, 8);
  std::printf("imbalance of bytes %.3f\n", report(model, plan, {}).imbalance_bytes);
  return 0;
}

#include <cmath>
#include <cstdio>

#include <gtest/gtest.h>

#include <matrixfsdp/orthogonalize/newton_schulz.hpp>

#include "support/mpi_world.hpp"
#include "support/training_oracle.hpp"

/// Whole runs of the library in float32 against a trainer in double that shares no line with it.
namespace matrixfsdp {
namespace {

using testing::Training;
using testing::training_of;
using testing::TrainingLoop;
using testing::world;

constexpr std::int64_t steps = 50;

TransformerShape gpt2_shape() {
  TransformerShape shape;
  shape.style = TransformerStyle::gpt2;
  shape.layers = 2;
  shape.hidden = 32;
  shape.heads = 4;
  shape.kv_heads = 4;
  shape.ffn = 64;
  shape.sequence_length = 16;
  shape.vocabulary = 64;
  shape.tied_head = true;
  return shape;
}

TransformerShape llama_shape() {
  TransformerShape shape = gpt2_shape();
  shape.style = TransformerStyle::llama;
  shape.kv_heads = 2;
  shape.ffn = 44;
  shape.vocabulary = 61;
  shape.tied_head = false;
  return shape;
}

struct Difference {
  double loss = 0, norm = 0, parameter = 0; std::string worst; double rms=0;
};

bool is_key_bias(const TransformerShape& s, const std::string& name, std::size_t i) {
  return name.find("qkv_bias") != std::string::npos && (std::int64_t)i >= s.hidden && (std::int64_t)i < s.hidden + s.kv_heads*s.head_dimension();
}

void measure(const char* label, const Training& training) {
  TrainingLoop loop(world(), training, make_plan(training.spec, world().size()));
  const auto initial = loop.parameters();
  std::vector<testing::StepRecord> records;
  for (std::int64_t s = 1; s <= steps; ++s) records.push_back(loop.step(batch_of(training, s)));
  const auto final = loop.parameters();
  if (world().rank() != 0) return;
  oracle::Trainer trainer(testing::oracle_model(training.shape), testing::oracle_options(training), testing::oracle_parameters(training.shape, initial));
  double l=0,n=0;
  for (std::int64_t s = 1; s <= steps; ++s) {
    auto r = trainer.step(batch_of(training, s), (size_t)training.micro_batch);
    auto& m = records[s-1];
    l = std::fmax(l, std::fabs(m.loss-r.loss)/r.loss); n = std::fmax(n, std::fabs(m.norm-r.grad_norm)/r.grad_norm);
    if (s==1||s==2||s==5||s==10||s==20||s==50) std::printf("%s step %d loss %.6f norm %.5f  max so far: loss %.2e norm %.2e\n", label, (int)s, r.loss, r.grad_norm, l, n);
  }
  for (auto& [name, t] : trainer.parameters()) {
    double mx=0, sq=0, moved=0; 
    for (size_t i=0;i<t.values.size();++i){ double d=std::fabs(t.values[i]-final.at(name)[i]); if (is_key_bias(training.shape,name,i)) continue; mx=std::fmax(mx,d); sq+=d*d; moved=std::fmax(moved,std::fabs(t.values[i]-initial.at(name)[i])); }
    std::printf("   %-30s max %.2e rms %.2e moved %.2e\n", name.c_str(), mx, std::sqrt(sq/t.values.size()), moved);
  }
}

TEST(TrainingOracle, measure) {
  Training t = training_of(gpt2_shape());
  t.max_norm = 0.5; t.optimizer.muon.weight_decay=0.1; t.optimizer.adamw.weight_decay=0.1; t.schedule.warmup_steps=5; t.schedule.total_steps=50;
  measure("gpt2 muon", t);
  t.optimizer.matrices = MatrixOptimizer::adamw; t.optimizer.adamw.learning_rate=3e-3;
  measure("gpt2 adamw", t);
  t = training_of(llama_shape());
  t.max_norm = 0.5; t.optimizer.muon.weight_decay=0.1; t.optimizer.adamw.weight_decay=0.1; t.schedule.warmup_steps=5; t.schedule.total_steps=50;
  measure("llama muon", t);
  t.optimizer.muon.newton_schulz.coefficients=&quintic_sequence("keller-jordan"); t.optimizer.muon.scale=ScaleRule::match_rms_adamw; t.optimizer.muon.learning_rate=0.005;
  measure("llama muon kj", t);
  t.optimizer.matrices = MatrixOptimizer::adamw; t.optimizer.adamw.learning_rate=3e-3;
  measure("llama adamw", t);
}

}  // namespace
}  // namespace matrixfsdp

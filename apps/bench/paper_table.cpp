#include "apps/bench/paper_table.hpp"

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::bench {
namespace {

constexpr std::int64_t sequence = 4096;
constexpr double giga = 1e9;

/// Extents of a decoder with gated feed-forward and grouped-query attention, heads of 128.
struct Decoder {
  std::int64_t layers;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t ffn;
  std::int64_t vocabulary;
  bool tied_head;
};

struct NamedDecoder {
  const char* name;
  Decoder decoder;
};

// Qwen 3, as released.
constexpr NamedDecoder decoders[] = {{"1.7B", {28, 2048, 16, 8, 6144, 151936, true}},
                                     {"4B", {36, 2560, 32, 8, 9728, 151936, true}},
                                     {"8B", {36, 4096, 32, 8, 12288, 151936, false}},
                                     {"14B", {40, 5120, 40, 8, 17408, 151936, false}},
                                     {"32B", {64, 5120, 64, 8, 25600, 151936, false}}};

ParameterSpec matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  ParameterSpec parameter;
  parameter.name = name;
  parameter.shape = {rows, cols};
  return parameter;
}

ParameterSpec table(const std::string& name, std::int64_t vocabulary, std::int64_t hidden) {
  ParameterSpec parameter = matrix(name, vocabulary, hidden);
  parameter.kind = ParameterKind::tail;
  return parameter;
}

UnitSpec root(std::int64_t vocabulary, std::int64_t hidden, bool tied_head) {
  UnitSpec unit{"root", {table("embedding", vocabulary, hidden)}, true};
  if (!tied_head) unit.parameters.push_back(table("head", vocabulary, hidden));
  return unit;
}

UnitSpec decoder_block(const Decoder& decoder, const std::string& name) {
  constexpr std::int64_t head = 128;
  const std::int64_t queries = head * decoder.heads;
  const std::int64_t keys = head * decoder.kv_heads;
  return {name,
          {matrix(name + ".query", queries, decoder.hidden), matrix(name + ".key", keys, decoder.hidden),
           matrix(name + ".value", keys, decoder.hidden), matrix(name + ".output", decoder.hidden, queries),
           matrix(name + ".gate", decoder.ffn, decoder.hidden), matrix(name + ".up", decoder.ffn, decoder.hidden),
           matrix(name + ".down", decoder.hidden, decoder.ffn)},
          false};
}

UnitSpec reference_block(std::int64_t h, const std::string& name) {
  UnitSpec unit{name, {}, false};
  for (const char* role : {"query", "key", "value", "output"})
    unit.parameters.push_back(matrix(fmt::format("{}.{}", name, role), h, h));
  for (const char* role : {"up", "down"})
    unit.parameters.push_back(matrix(fmt::format("{}.{}", name, role), h, 4 * h));
  return unit;
}

/// Recomputation keeps each block's input; what one block needs besides is small beside that and not counted.
std::int64_t block_inputs(std::int64_t layers, std::int64_t hidden) {
  return static_cast<std::int64_t>(sizeof(float)) * sequence * layers * hidden;
}

PaperModel decoder_model(const Decoder& decoder) {
  PaperModel model;
  for (std::int64_t layer = 0; layer < decoder.layers; ++layer)
    model.spec.units.push_back(decoder_block(decoder, fmt::format("block.{}", layer)));
  model.pass.unit_flops.assign(model.spec.units.size(), 0);
  model.pass.activation_bytes = block_inputs(decoder.layers, decoder.hidden);
  return model;
}

PaperModel with_tables(PaperModel model, const UnitSpec& unit, Tables tables) {
  if (tables == Tables::whole) {
    model.spec.units.insert(model.spec.units.begin(), unit);
    model.pass.unit_flops.insert(model.pass.unit_flops.begin(), 0);
    return model;
  }
  // A rank's part, counted with what else is the same on all ranks.
  for (const ParameterSpec& parameter : unit.parameters) {
    model.pass.activation_bytes += resident_bytes(parameter, element_count(parameter.shape), {}) / paper_memory_ranks;
  }
  return model;
}

}  // namespace

std::vector<PaperStep> paper_steps() {
  return {{1, 16, 367, 87, 991, 725},
          {2, 32, 1285, 89, 2612, 1489},
          {4, 64, 3079, 91, 5788, 2689},
          {8, 128, 5064, 93, 10004, 4989}};
}

std::vector<PaperPolicy> paper_policies() {
  return {{"role", 2511}, {"scope", 2486}, {"cost", 2508}};
}

std::vector<PaperMemory> paper_memory() {
  using enum StrategyKind;
  return {{"1.7B", matrix_fsdp, 1.4 * giga},  {"4B", matrix_fsdp, 2.6 * giga},    {"8B", matrix_fsdp, 4.3 * giga},
          {"14B", matrix_fsdp, 6.3 * giga},   {"32B", matrix_fsdp, 10.0 * giga},  {"1.7B", fsdp2_gather, 4.4 * giga},
          {"4B", fsdp2_gather, 9.7 * giga},   {"8B", fsdp2_gather, 18.4 * giga},  {"14B", fsdp2_gather, 30.7 * giga},
          {"32B", fsdp2_gather, 61.6 * giga}, {"4.3B", zero1_owner, 18.5 * giga}, {"4.3B", fsdp2, 2.1 * giga},
          {"4.3B", matrix_fsdp, 2.7 * giga}};
}

PaperModel reference_model(int blocks) {
  constexpr std::int64_t h = 4096;
  PaperModel model;
  for (int block = 0; block < blocks; ++block)
    model.spec.units.push_back(reference_block(h, fmt::format("block.{}", block)));
  const TransformerShape shape{TransformerStyle::gpt2, blocks, h, 32, 32, 4 * h, sequence, 1, true};
  model.pass.unit_flops.assign(static_cast<std::size_t>(blocks), block_product_flops(shape, sequence, sequence));
  model.pass.activation_bytes = block_inputs(blocks, h);
  return model;
}

PaperModel sized_model(const std::string& name, Tables tables) {
  for (const NamedDecoder& known : decoders) {
    const Decoder& decoder = known.decoder;
    if (name == known.name)
      return with_tables(decoder_model(decoder), root(decoder.vocabulary, decoder.hidden, decoder.tied_head), tables);
  }
  if (name != "4.3B") throw ContractError(fmt::format("model '{}': expected one of the published sizes", name));
  return with_tables(reference_model(20), root(32000, 4096, false), tables);
}

StepOptions paper_options(const PaperModel& model, int newton_schulz_steps) {
  StepOptions options;
  options.pass = model.pass;
  options.recompute = true;
  options.master_weights = false;
  options.cost.memory.optimizer.algorithm = NewtonSchulzAlgorithm::standard;
  options.cost.memory.optimizer.newton_schulz_steps = newton_schulz_steps;
  // Gathered once, all of them, before the first is orthogonalized.
  options.cost.matrices_ahead = 1 << 20;
  options.optimizer_collective = CollectiveAlgorithm::chain;
  return options;
}

}  // namespace matrixfsdp::bench

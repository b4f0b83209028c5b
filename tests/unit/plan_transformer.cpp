#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/transformer.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

struct Expected {
  std::string name;
  Shape shape;
  ParameterKind kind;
};

void expect_unit(const UnitSpec& unit, const std::string& name, bool keep, const std::vector<Expected>& expected) {
  EXPECT_EQ(unit.name, name);
  EXPECT_EQ(unit.keep, keep);
  ASSERT_EQ(unit.parameters.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(unit.parameters[i].name, expected[i].name);
    EXPECT_EQ(unit.parameters[i].shape, expected[i].shape) << expected[i].name;
    EXPECT_EQ(kind_of(unit.parameters[i]), expected[i].kind) << expected[i].name;
  }
}

constexpr auto matrix = ParameterKind::matrix;
constexpr auto tail = ParameterKind::tail;

TransformerShape small(TransformerStyle style) {
  return {style, 2, 8, 4, style == TransformerStyle::gpt2 ? 4 : 2, 24, 5, 11, style == TransformerStyle::gpt2};
}

TEST(TransformerModels, gpt2_parameters_and_their_order) {
  const ModelSpec model = transformer_model(small(TransformerStyle::gpt2));
  EXPECT_NO_THROW(validate(model));
  ASSERT_EQ(model.units.size(), 3U);
  expect_unit(model.units[0], "root", true,
              {{"token_embedding", {11, 8}, tail},
               {"position_embedding", {5, 8}, tail},
               {"final_norm.weight", {8}, tail},
               {"final_norm.bias", {8}, tail}});
  expect_unit(model.units[2], "block.1", false,
              {{"block.1.attention_norm.weight", {8}, tail},
               {"block.1.attention_norm.bias", {8}, tail},
               {"block.1.attention.qkv", {24, 8}, matrix},
               {"block.1.attention.qkv_bias", {24}, tail},
               {"block.1.attention.output", {8, 8}, matrix},
               {"block.1.attention.output_bias", {8}, tail},
               {"block.1.mlp_norm.weight", {8}, tail},
               {"block.1.mlp_norm.bias", {8}, tail},
               {"block.1.mlp.up", {24, 8}, matrix},
               {"block.1.mlp.up_bias", {24}, tail},
               {"block.1.mlp.down", {8, 24}, matrix},
               {"block.1.mlp.down_bias", {8}, tail}});
  ASSERT_EQ(model.tied.size(), 1U);
  EXPECT_EQ(model.tied[0].name, "head.weight");
  EXPECT_EQ(model.tied[0].target, "token_embedding");
  EXPECT_EQ(matrix_count(model), 2 * 6);
}

TEST(TransformerModels, llama_parameters_and_their_order) {
  const ModelSpec model = transformer_model(small(TransformerStyle::llama));
  EXPECT_NO_THROW(validate(model));
  ASSERT_EQ(model.units.size(), 3U);
  expect_unit(model.units[0], "root", true,
              {{"token_embedding", {11, 8}, tail}, {"final_norm.weight", {8}, tail}, {"head.weight", {11, 8}, tail}});
  EXPECT_FALSE(model.units[0].parameters[2].embedding) << "a tail by override, it is no lookup table";
  expect_unit(model.units[1], "block.0", false,
              {{"block.0.attention_norm.weight", {8}, tail},
               {"block.0.attention.qkv", {16, 8}, matrix},
               {"block.0.attention.output", {8, 8}, matrix},
               {"block.0.mlp_norm.weight", {8}, tail},
               {"block.0.mlp.gate_up", {48, 8}, matrix},
               {"block.0.mlp.down", {8, 24}, matrix}});
  EXPECT_TRUE(model.tied.empty());
  const Blocks& qkv = model.units[1].parameters[1].blocks;
  EXPECT_EQ(qkv.axis, 0);
  EXPECT_EQ(qkv.names, (std::vector<std::string>{"query", "key", "value"}));
  EXPECT_EQ(qkv.sizes, (std::vector<std::int64_t>{8, 4, 4}));
  const Blocks& gate_up = model.units[1].parameters[4].blocks;
  EXPECT_EQ(gate_up.names, (std::vector<std::string>{"gate", "up"}));
  EXPECT_EQ(gate_up.sizes, (std::vector<std::int64_t>{24, 24}));
  EXPECT_EQ(matrix_count(model), 2 * (3 + 1 + 2 + 1));
}

TEST(TransformerModels, initial_values) {
  using Kind = Initialization::Kind;
  const ModelSpec model = transformer_model(small(TransformerStyle::gpt2));
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& spec : unit.parameters) {
      const auto ends_with = [&spec](const std::string& end) {
        return spec.name.size() >= end.size() && spec.name.substr(spec.name.size() - end.size()) == end;
      };
      if (ends_with("bias")) {
        EXPECT_EQ(spec.initialization.kind, Kind::zeros) << spec.name;
      } else if (ends_with("norm.weight")) {
        EXPECT_EQ(spec.initialization.kind, Kind::ones) << spec.name;
      } else {
        const bool residual = ends_with("attention.output") || ends_with("mlp.down");
        EXPECT_EQ(spec.initialization.kind, Kind::normal) << spec.name;
        EXPECT_DOUBLE_EQ(spec.initialization.standard_deviation, residual ? 0.01 : 0.02) << spec.name;  // 2 layers
      }
    }
  }
}

// Published sizes: GPT-2 124,439,808 and so on (with the tied head counted once), Llama 3.2 1B 1,235,814,400, Llama 3
// 8B 8,030,261,248 and 70B 70,553,706,496.
TEST(TransformerCatalogue, parameter_counts_are_the_published_ones) {
  const auto count = [](const char* name) { return element_count(transformer_model(transformer_from_name(name))); };
  EXPECT_EQ(count("gpt2:124m"), 124439808);
  EXPECT_EQ(count("gpt2:350m"), 354823168);
  EXPECT_EQ(count("gpt2:774m"), 774030080);
  EXPECT_EQ(count("gpt2:1.5b"), 1557611200);
  EXPECT_EQ(count("llama:1b"), 1235814400);
  EXPECT_EQ(count("llama:8b"), 8030261248);
  EXPECT_EQ(count("llama:70b"), 70553706496);
}

TEST(TransformerCatalogue, every_name_and_any_depth) {
  const std::vector<std::string> names = transformer_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 9U);
  for (const std::string& name : names)
    EXPECT_NO_THROW(validate(transformer_model(transformer_from_name(name)))) << name;
  const TransformerShape d12 = transformer_from_name("gpt2:d12");
  EXPECT_EQ(d12.layers, 12);
  EXPECT_EQ(d12.hidden, 768);
  EXPECT_EQ(d12.heads, 12);
  EXPECT_EQ(d12.ffn, 3072);
  EXPECT_TRUE(d12.tied_head);
  const TransformerShape llama = transformer_from_name("llama:d12");
  EXPECT_EQ(llama.hidden, 768);
  EXPECT_EQ(llama.kv_heads, 3);
  EXPECT_EQ(llama.ffn, 2048);
  EXPECT_FALSE(llama.tied_head);
  for (int depth = 1; depth <= 40; ++depth) {
    for (const char* style : {"gpt2:d", "llama:d"}) {
      const TransformerShape shape = transformer_from_name(fmt::format("{}{}", style, depth));
      EXPECT_EQ(shape.hidden, 64 * depth);
      EXPECT_NO_THROW(validate(shape)) << style << depth;
    }
  }
  EXPECT_EQ(transformer_names().front(), "gpt2:d12");
}

TEST(TransformerCatalogue, other_names_list_what_there_is) {
  for (const char* name : {"", "gpt9", "gpt2", "gpt2:", "gpt2:d", "gpt2:d0", "gpt2:d-3", "gpt2:d12x", "gpt2:d5000",
                           "gpt2:d99999999999999999999", "llama:7b", "GPT2:124m", "gpt2:12"}) {
    const std::string message = test::message_of<InputError>([name] { transformer_from_name(name); });
    EXPECT_NE(message.find(fmt::format("'{}'", name)), std::string::npos) << message;
    for (const std::string& known : transformer_names())
      EXPECT_NE(message.find(known), std::string::npos) << message;
  }
}

TEST(TransformerShapes, contradictions_are_named) {
  const auto message = [](TransformerStyle style, void (*change)(TransformerShape&)) {
    TransformerShape shape = small(style);
    change(shape);
    EXPECT_THROW(transformer_model(shape), InputError);
    return test::message_of<InputError>([&] { validate(shape); });
  };
  constexpr auto gpt2 = TransformerStyle::gpt2;
  constexpr auto llama = TransformerStyle::llama;
  EXPECT_NE(message(gpt2, [](TransformerShape& s) { s.layers = 0; }).find("layers 0"), std::string::npos);
  EXPECT_NE(message(gpt2, [](TransformerShape& s) { s.vocabulary = -7; }).find("vocabulary -7"), std::string::npos);
  EXPECT_NE(message(gpt2, [](TransformerShape& s) { s.ffn = 1LL << 31; }).find("ffn 2147483648"), std::string::npos);
  EXPECT_NE(message(gpt2, [](TransformerShape& s) { s.heads = 3; }).find("hidden 8 and heads 3"), std::string::npos);
  EXPECT_NE(message(llama, [](TransformerShape& s) { s.kv_heads = 3; }).find("heads 4 and kv heads 3"),
            std::string::npos);
  EXPECT_NE(message(llama, [](TransformerShape& s) { s.heads = s.kv_heads = 8; }).find("head dimension 1"),
            std::string::npos);
  TransformerShape odd = small(gpt2);
  odd.heads = odd.kv_heads = 8;
  TransformerShape grouped = odd;
  grouped.kv_heads = 1;
  EXPECT_THROW(validate(grouped), InputError) << "gpt2 has no grouped keys";
  EXPECT_NO_THROW(validate(odd)) << "without rotary positions a head may have an odd dimension";
}

// Term by term for one sequence of 3 tokens: H = 8, KV = 4 (llama), F = 24, V = 11, 2 layers.
TEST(TransformerFlops, by_hand) {
  const std::int64_t pairs = 1 + 2 + 3;
  const std::int64_t attention = pairs * (2 * 8 + 2 * 8);  // scores and values
  const std::int64_t gpt2 = 2 * (2 * 3 * (24 * 8 + 8 * 8 + 24 * 8 + 8 * 24) + attention) + 2 * 3 * 11 * 8;
  EXPECT_EQ(forward_product_flops(small(TransformerStyle::gpt2), 3, 3), gpt2);
  const std::int64_t llama = 2 * (2 * 3 * (16 * 8 + 8 * 8 + 48 * 8 + 8 * 24) + attention) + 2 * 3 * 11 * 8;
  EXPECT_EQ(forward_product_flops(small(TransformerStyle::llama), 3, 3), llama);
  EXPECT_EQ(forward_product_flops(small(TransformerStyle::llama), 12, 3), 4 * llama)
      << "sequences do not see each other";
  EXPECT_EQ(forward_product_flops(small(TransformerStyle::llama), 0, 3), 0);
  EXPECT_THROW(forward_product_flops(small(TransformerStyle::llama), 3, 0), ContractError);
}

}  // namespace
}  // namespace matrixfsdp

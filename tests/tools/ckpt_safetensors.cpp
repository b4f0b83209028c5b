#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/core/bfloat16.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/schema/safetensors.hpp>

#include "apps/ckpt/hugging_face.hpp"
#include "apps/ckpt/values.hpp"
#include "support/ckpt_program.hpp"
#include "support/stored_checkpoint.hpp"

namespace matrixfsdp {
namespace {

using testing::checkpoint_model;
using testing::ckpt;
using testing::ckpt_json;
using testing::fresh_folder;
using testing::store_checkpoint;
using testing::stored_value;

TransformerShape small(TransformerStyle style, bool tied) {
  return {.style = style,
          .layers = 2,
          .hidden = 8,
          .heads = 4,
          .kv_heads = style == TransformerStyle::gpt2 ? 4 : 2,
          .ffn = 20,
          .sequence_length = 6,
          .vocabulary = 11,
          .tied_head = tied};
}

using Tensors = std::map<std::string, std::pair<Shape, std::vector<float>>>;

Tensors read_f32(const std::string& path) {
  const io::SafetensorsReader reader(path);
  Tensors tensors;
  for (const io::SafetensorsEntry& entry : reader.header().tensors) {
    EXPECT_EQ(entry.dtype, "F32");
    auto& [shape, values] = tensors[entry.name];
    shape = entry.shape;
    values.resize(static_cast<std::size_t>(entry.bytes.size()) / 4);
    reader.read(entry, [&, out = &values](std::int64_t first, std::span<const std::byte> block) {
      std::memcpy(out->data() + first, block.data(), block.size());
    });
  }
  return tensors;
}

void write_f32(const std::string& path, const Tensors& tensors) {
  std::vector<io::SafetensorsEntry> entries;
  for (const auto& [name, tensor] : tensors)
    entries.push_back({name, "F32", tensor.first});
  io::SafetensorsWriter writer(path, entries, {{"format", "pt"}});
  for (const auto& [name, tensor] : tensors)
    writer.append(std::as_bytes(std::span(tensor.second)));
  writer.close();
}

// Written by hand from transformers' modeling_gpt2.py: Conv1D keeps (in, out), c_attn has query, key, value side by
// side.
TEST(CkptSafetensors, gpt2_has_the_names_and_layouts_of_hugging_face) {
  const std::string folder = fresh_folder("gpt2");
  const std::string source = store_checkpoint(folder + "/a", transformer_model(small(TransformerStyle::gpt2, true)), 3);
  const auto said =
      ckpt_json({"export", source, "--safetensors", folder + "/hf.safetensors", "--names", "huggingface"}, 0);
  EXPECT_EQ(said["tensors"], 4 + 2 * 12);
  const Tensors tensors = read_f32(folder + "/hf.safetensors");
  const std::map<std::string, Shape> expected{{"transformer.wte.weight", {11, 8}},
                                              {"transformer.wpe.weight", {6, 8}},
                                              {"transformer.ln_f.weight", {8}},
                                              {"transformer.ln_f.bias", {8}},
                                              {"transformer.h.1.ln_1.weight", {8}},
                                              {"transformer.h.1.ln_1.bias", {8}},
                                              {"transformer.h.1.attn.c_attn.weight", {8, 24}},
                                              {"transformer.h.1.attn.c_attn.bias", {24}},
                                              {"transformer.h.1.attn.c_proj.weight", {8, 8}},
                                              {"transformer.h.1.attn.c_proj.bias", {8}},
                                              {"transformer.h.1.ln_2.weight", {8}},
                                              {"transformer.h.1.ln_2.bias", {8}},
                                              {"transformer.h.1.mlp.c_fc.weight", {8, 20}},
                                              {"transformer.h.1.mlp.c_fc.bias", {20}},
                                              {"transformer.h.1.mlp.c_proj.weight", {20, 8}},
                                              {"transformer.h.1.mlp.c_proj.bias", {8}}};
  for (const auto& [name, shape] : expected) {
    ASSERT_TRUE(tensors.contains(name)) << name;
    EXPECT_EQ(tensors.at(name).first, shape) << name;
  }
  const auto& c_attn = tensors.at("transformer.h.1.attn.c_attn.weight").second;
  const auto& c_proj = tensors.at("transformer.h.1.mlp.c_proj.weight").second;
  for (std::int64_t in = 0; in < 8; ++in) {
    for (std::int64_t out = 0; out < 24; ++out) {
      EXPECT_EQ(c_attn[static_cast<std::size_t>(in * 24 + out)],
                stored_value(1, "block.1.attention.qkv", "weight", out * 8 + in));
    }
  }
  for (std::int64_t in = 0; in < 20; ++in) {
    for (std::int64_t out = 0; out < 8; ++out)
      EXPECT_EQ(c_proj[static_cast<std::size_t>(in * 8 + out)],
                stored_value(1, "block.1.mlp.down", "weight", out * 20 + in));
  }
  EXPECT_EQ(tensors.at("transformer.h.0.mlp.c_fc.bias").second[3], stored_value(1, "block.0.mlp.up_bias", "weight", 3));
  ASSERT_EQ(ckpt({"import", folder + "/b", "--safetensors", folder + "/hf.safetensors", "--ranks", "4"}).exit_code, 0);
  EXPECT_EQ(ckpt({"diff", source, folder + "/b"}).exit_code, 0);
}

// From modeling_llama.py: a matrix each for query, key, value, gate and up, (out, in); the rotary layout is ours.
TEST(CkptSafetensors, llama_has_the_names_and_layouts_of_hugging_face) {
  for (const bool tied : {false, true}) {
    const std::string folder = fresh_folder(tied ? "llama-tied" : "llama");
    const ModelSpec model = transformer_model(small(TransformerStyle::llama, tied));
    const std::string source = store_checkpoint(folder + "/a", model, 2);
    ASSERT_EQ(ckpt({"export", source, "--safetensors", folder + "/hf", "--names", "huggingface"}).exit_code, 0);
    Tensors tensors = read_f32(folder + "/hf");
    EXPECT_EQ(tensors.size(), 2U + 2 * 9 + (tied ? 0 : 1));
    EXPECT_EQ(tensors.contains("lm_head.weight"), !tied);
    const std::map<std::string, std::pair<Shape, std::pair<std::string, std::int64_t>>> expected{
        {"model.embed_tokens.weight", {{11, 8}, {"token_embedding", 0}}},
        {"model.norm.weight", {{8}, {"final_norm.weight", 0}}},
        {"model.layers.1.input_layernorm.weight", {{8}, {"block.1.attention_norm.weight", 0}}},
        {"model.layers.1.self_attn.q_proj.weight", {{8, 8}, {"block.1.attention.qkv", 0}}},
        {"model.layers.1.self_attn.k_proj.weight", {{4, 8}, {"block.1.attention.qkv", 64}}},
        {"model.layers.1.self_attn.v_proj.weight", {{4, 8}, {"block.1.attention.qkv", 96}}},
        {"model.layers.1.self_attn.o_proj.weight", {{8, 8}, {"block.1.attention.output", 0}}},
        {"model.layers.1.post_attention_layernorm.weight", {{8}, {"block.1.mlp_norm.weight", 0}}},
        {"model.layers.1.mlp.gate_proj.weight", {{20, 8}, {"block.1.mlp.gate_up", 0}}},
        {"model.layers.1.mlp.up_proj.weight", {{20, 8}, {"block.1.mlp.gate_up", 160}}},
        {"model.layers.1.mlp.down_proj.weight", {{8, 20}, {"block.1.mlp.down", 0}}}};
    for (const auto& [name, told] : expected) {
      ASSERT_TRUE(tensors.contains(name)) << name;
      const auto& [shape, values] = tensors.at(name);
      EXPECT_EQ(shape, told.first) << name;
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(values[i],
                  stored_value(1, told.second.first, "weight", told.second.second + static_cast<std::int64_t>(i)))
            << name;
      }
    }
    // Without our metadata, in two files, with a buffer of old versions: the shapes tell the model.
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = {{1}, {1.0F}};
    Tensors second;
    second.insert(tensors.extract("model.norm.weight"));
    write_f32(folder + "/1", tensors);
    write_f32(folder + "/2", second);
    ASSERT_EQ(ckpt({"import", folder + "/b", "--safetensors", folder + "/1", folder + "/2"}).exit_code, 0);
    EXPECT_EQ(ckpt({"diff", source, folder + "/b"}).exit_code, 0);
    io::CheckpointReader reader(folder + "/b/step_00000000");
    EXPECT_EQ(hash_of(reader.manifest().model), hash_of(model)) << "heads do not matter";
  }
}

TEST(CkptSafetensors, any_model_goes_there_and_back_under_its_own_names) {
  const std::string folder = fresh_folder("own");
  const std::string source = store_checkpoint(folder + "/a", checkpoint_model(), 3);
  ASSERT_EQ(ckpt({"export", source, "--safetensors", folder + "/file"}).exit_code, 0);
  EXPECT_TRUE(read_f32(folder + "/file").contains("block.1.frozen"));
  ASSERT_EQ(ckpt({"import", folder + "/b", "--safetensors", folder + "/file", "--seed", "5"}).exit_code, 0);
  EXPECT_EQ(ckpt({"diff", source, folder + "/b"}).exit_code, 0);
  const auto shown = ckpt_json({"show", folder + "/b"}, 0);
  EXPECT_EQ(shown["seed"], 5);
  EXPECT_EQ(shown["step"], 0);
  EXPECT_EQ(ckpt({"export", folder + "/b", "--safetensors", folder + "/file"}).exit_code, 2) << "it exists";
}

// State of zeros, for the run that starts from it.
TEST(CkptSafetensors, import_makes_the_state_that_the_optimizer_expects) {
  const std::string folder = fresh_folder("state");
  const std::string source = store_checkpoint(folder + "/a", checkpoint_model(), 1);
  ASSERT_EQ(ckpt({"export", source, "--safetensors", folder + "/file"}).exit_code, 0);
  for (const std::string optimizer : {"muon", "adamw", "none"}) {
    ASSERT_EQ(ckpt({"import", folder + "/" + optimizer, "--safetensors", folder + "/file", "--optimizer", optimizer})
                  .exit_code,
              0);
    std::map<std::string, std::vector<std::string>> states;
    const auto shown = ckpt_json({"show", folder + "/" + optimizer, "--stats"}, 0);
    EXPECT_GT(shown["tensors"].size(), 10U);
    for (const auto& tensor : shown["tensors"]) {
      if (tensor["what"] == "weight") continue;
      states[tensor["parameter"]].push_back(tensor["what"]);
      EXPECT_EQ(tensor["statistics"]["norm"], 0) << tensor;
    }
    const std::vector<std::string> moments{"first_moment", "second_moment"};
    const auto of = [&](const std::string& name) { return states[name]; };
    EXPECT_EQ(of("table"), optimizer == "none" ? std::vector<std::string>() : moments);
    EXPECT_EQ(of("scale"), std::vector<std::string>()) << "frozen";
    EXPECT_EQ(of("block.0.up"), optimizer == "muon"    ? std::vector<std::string>{"momentum"}
                                : optimizer == "adamw" ? moments
                                                       : std::vector<std::string>());
  }
}

TEST(CkptSafetensors, bfloat16_and_half_precision) {
  const std::string folder = fresh_folder("narrow");
  const std::string source = store_checkpoint(folder + "/a", checkpoint_model(), 2);
  ASSERT_EQ(ckpt({"export", source, "--safetensors", folder + "/file", "--dtype", "bfloat16"}).exit_code, 0);
  const io::SafetensorsReader reader(folder + "/file");
  for (const io::SafetensorsEntry& entry : reader.header().tensors) {
    EXPECT_EQ(entry.dtype, "BF16");
    reader.read(entry, [&](std::int64_t first, std::span<const std::byte> block) {
      for (std::size_t i = 0; i < block.size() / 2; ++i) {
        bfloat16 value;
        std::memcpy(&value, block.data() + 2 * i, 2);
        ASSERT_EQ(value, to_bfloat16(stored_value(1, entry.name, "weight", first + static_cast<std::int64_t>(i))));
      }
    });
  }
  ASSERT_EQ(ckpt({"import", folder + "/b", "--safetensors", folder + "/file"}).exit_code, 0);
  EXPECT_EQ(ckpt({"diff", source, folder + "/b", "--rtol", "0.00391"}).exit_code, 0) << "2^-8";
  EXPECT_EQ(ckpt({"diff", source, folder + "/b"}).exit_code, 1);

  // IEEE 754: 1, -2, the largest, the smallest, and the smallest normal number.
  EXPECT_EQ(ckpt::half_to_float(0x3c00), 1.0F);
  EXPECT_EQ(ckpt::half_to_float(0xc000), -2.0F);
  EXPECT_EQ(ckpt::half_to_float(0x7bff), 65504.0F);
  EXPECT_EQ(ckpt::half_to_float(0x0001), 0x1p-24F);
  EXPECT_EQ(ckpt::half_to_float(0x83ff), -0x1.ff8p-15F);
  EXPECT_EQ(ckpt::half_to_float(0x0400), 0x1p-14F);
  EXPECT_TRUE(std::signbit(ckpt::half_to_float(0x8000)));
  EXPECT_TRUE(std::isinf(ckpt::half_to_float(0x7c00)));
  EXPECT_TRUE(std::isnan(ckpt::half_to_float(0x7e00)));
}

TEST(CkptSafetensors, what_does_not_fit_is_named) {
  const std::string folder = fresh_folder("unfit");
  const std::string source = store_checkpoint(folder + "/a", transformer_model(small(TransformerStyle::gpt2, true)), 1);
  ASSERT_EQ(ckpt({"export", source, "--safetensors", folder + "/hf", "--names", "huggingface"}).exit_code, 0);
  const Tensors good = read_f32(folder + "/hf");
  int number = 0;
  const auto error_of = [&](const std::function<void(Tensors&)>& change) {
    Tensors tensors = good;
    change(tensors);
    const std::string file = folder + "/" + std::to_string(++number);
    write_f32(file, tensors);
    const auto result = ckpt({"import", file + "-new", "--safetensors", file});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_FALSE(std::filesystem::exists(file + "-new"));
    return result.err;
  };
  const std::string c_fc = "transformer.h.1.mlp.c_fc.weight";
  EXPECT_NE(error_of([&](Tensors& t) { t.erase(c_fc); }).find(c_fc), std::string::npos);
  const std::string shape = error_of([&](Tensors& t) { t[c_fc].first = {20, 8}; });
  EXPECT_NE(shape.find("(20, 8); expected (8, 20)"), std::string::npos) << shape;
  EXPECT_NE(error_of([](Tensors& t) { t["extra"] = {{1}, {0}}; }).find("'extra': unexpected"), std::string::npos);
  const std::string head = error_of([](Tensors& t) {
    t["lm_head.weight"] = t["transformer.wte.weight"];
    t["lm_head.weight"].second[7] += 1;
  });
  EXPECT_NE(head.find("lm_head.weight"), std::string::npos) << head;
  EXPECT_NE(head.find("element 7"), std::string::npos) << head;
  EXPECT_NE(error_of([](Tensors& t) { t.erase("transformer.wpe.weight"); }).find("wpe"), std::string::npos);
  const auto own = ckpt({"import", folder + "/new", "--safetensors", folder + "/1", "--names", "matrixfsdp"});
  EXPECT_EQ(own.exit_code, 2);
  EXPECT_NE(own.err.find("matrixfsdp.model"), std::string::npos) << own.err;
}

// A trained model leaves and comes back as the start of another run, with other ranks.
TEST(CkptSafetensors, a_run_starts_from_an_imported_model) {
  const std::string folder = fresh_folder("start");
  testing::write_file(folder + "/text", testing::sample_text(4000));
  const std::vector<std::string> model{"--data",          folder + "/text",
                                       "--model",         "gpt2",
                                       "--layers",        "1",
                                       "--hidden",        "16",
                                       "--heads",         "2",
                                       "--ffn",           "32",
                                       "--seq-len",       "16",
                                       "--batch-size",    "4",
                                       "--sample-tokens", "0",
                                       "--json"};
  const auto train = [&](int ranks, std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), model.begin(), model.end());
    const auto result = testing::run_train(ranks, arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, false);
  };
  const auto summary = train(2, {"--steps", "2", "--checkpoint-dir", folder + "/a"});
  const auto listed = ckpt_json({"ls", folder + "/a"}, 0);
  EXPECT_EQ(listed["checkpoints"][0]["loss"], summary["last_loss"]);
  ASSERT_EQ(ckpt({"export", folder + "/a", "--safetensors", folder + "/hf", "--names", "huggingface"}).exit_code, 0);
  ASSERT_EQ(ckpt({"import", folder + "/b", "--safetensors", folder + "/hf", "--ranks", "3"}).exit_code, 0);
  const auto again = train(1, {"--steps", "1", "--resume", folder + "/b/step_00000000"});
  EXPECT_LT(again["first_loss"].get<double>(), summary["first_loss"].get<double>()) << "what was learned is there";

  // Resharded, the run goes on as the one that was saved does.
  ASSERT_EQ(ckpt({"reshard", folder + "/a", folder + "/c", "--ranks", "3"}).exit_code, 0);
  const auto straight = train(2, {"--steps", "4", "--checkpoint-dir", folder + "/a", "--resume", "auto"});
  const auto resharded = train(1, {"--steps", "4", "--checkpoint-dir", folder + "/c", "--resume", "auto"});
  EXPECT_EQ(straight["last_loss"], resharded["last_loss"]);
  EXPECT_EQ(ckpt({"diff", folder + "/a", folder + "/c"}).exit_code, 0);
}

}  // namespace
}  // namespace matrixfsdp

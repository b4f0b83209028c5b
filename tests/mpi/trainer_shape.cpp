#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>

#include "apps/train/model_options.hpp"

/// The model as checkpoints and metrics record it.
namespace matrixfsdp {
namespace {

TEST(TrainerShape, comes_back_as_it_was_recorded) {
  for (const char* name : {"gpt2:d3", "llama:1b"}) {
    const TransformerShape shape = transformer_from_name(name);
    const TransformerShape back = train::shape_from_json(train::to_json(shape));
    EXPECT_EQ(hash_of(transformer_model(back)), hash_of(transformer_model(shape))) << name;
    EXPECT_EQ(back.heads, shape.heads) << name;
    EXPECT_EQ(back.kv_heads, shape.kv_heads) << name;
    EXPECT_EQ(back.sequence_length, shape.sequence_length) << name;
  }
}

TEST(TrainerShape, what_is_not_known_is_refused) {
  nlohmann::json model = train::to_json(transformer_from_name("gpt2:d3"));
  model["style"] = "mamba";
  EXPECT_THROW(train::shape_from_json(model), InputError);
  model["style"] = "gpt2";
  model["heads"] = 5;
  EXPECT_THROW(train::shape_from_json(model), InputError);
  model.erase("heads");
  EXPECT_THROW(train::shape_from_json(model), nlohmann::json::exception);
}

}  // namespace
}  // namespace matrixfsdp

#include <gtest/gtest.h>

#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/plan/model_spec.hpp>

#include "unit/plan_models.hpp"

namespace matrixfsdp {
namespace {

using test::embedding;
using test::one_unit;
using test::parameter;

ParameterKind kind(const Shape& shape) {
  return kind_of(parameter("p", shape));
}

void expect_part(const MatrixPart& part, std::int64_t offset, std::int64_t rows, std::int64_t cols, std::int64_t stride,
                 const std::string& name) {
  EXPECT_EQ(part.offset, offset) << name;
  EXPECT_EQ(part.rows, rows) << name;
  EXPECT_EQ(part.cols, cols) << name;
  EXPECT_EQ(part.stride, stride) << name;
  EXPECT_EQ(part.name, name);
}

// CASES 4: one rule for 1 x N and N x 1, and it is the same for every W because it asks the global shape only.
TEST(ModelSpecs, kind_by_rule) {
  EXPECT_EQ(kind({2, 2}), ParameterKind::matrix);
  EXPECT_EQ(kind({768, 3072}), ParameterKind::matrix);
  for (const Shape& shape : {Shape{}, Shape{5}, Shape{1, 768}, Shape{768, 1}, Shape{1, 1}, Shape{4, 1, 9},
                             Shape{4, 9, 1}, Shape{1, 3, 3, 3}, Shape{8, 1, 1, 1}}) {
    EXPECT_EQ(kind(shape), ParameterKind::tail) << to_string(shape);
  }
  EXPECT_EQ(kind_of(embedding("e", {100, 8})), ParameterKind::tail);
}

TEST(ModelSpecs, names_of_kinds_come_back) {
  EXPECT_EQ(name_of(ParameterKind::matrix), "matrix");
  EXPECT_EQ(name_of(ParameterKind::tail), "tail");
  for (const ParameterKind value : {ParameterKind::matrix, ParameterKind::tail})
    EXPECT_EQ(parse_parameter_kind(name_of(value)), value);
  EXPECT_THROW(parse_parameter_kind("vector"), InputError);
  EXPECT_THROW(name_of(static_cast<ParameterKind>(7)), ContractError);

  using Kind = Initialization::Kind;
  EXPECT_EQ(name_of(Kind::zeros), "zeros");
  EXPECT_EQ(name_of(Kind::ones), "ones");
  EXPECT_EQ(name_of(Kind::normal), "normal");
  for (const Kind value : {Kind::zeros, Kind::ones, Kind::normal})
    EXPECT_EQ(parse_initialization(name_of(value)), value);
  EXPECT_THROW(parse_initialization("uniform"), InputError);
  EXPECT_THROW(name_of(static_cast<Kind>(7)), ContractError);
}

TEST(ModelSpecs, kind_by_override) {
  ParameterSpec spec = parameter("p", {1, 768});
  spec.kind = ParameterKind::matrix;
  EXPECT_EQ(kind_of(spec), ParameterKind::matrix);
  spec = parameter("head", {768, 768});
  spec.kind = ParameterKind::tail;
  EXPECT_EQ(kind_of(spec), ParameterKind::tail);
  spec = embedding("e", {100, 8});
  spec.kind = ParameterKind::matrix;
  EXPECT_EQ(kind_of(spec), ParameterKind::matrix);
}

// CASES 7
TEST(ModelSpecs, a_parameter_without_elements_is_a_tail_whatever_else_it_says) {
  for (const Shape& shape : {Shape{0, 8}, Shape{8, 0}, Shape{0}, Shape{2, 0, 4}}) {
    ParameterSpec spec = parameter("p", shape);
    spec.kind = ParameterKind::matrix;
    EXPECT_EQ(kind_of(spec), ParameterKind::tail) << to_string(shape);
    EXPECT_NO_THROW(validate(one_unit({spec})));
  }
}

// CASES 15: three dimensions are a batch of matrices, four or more are flattened.
TEST(ModelSpecs, more_than_two_dimensions) {
  const auto expect_extents = [](const Shape& shape, std::int64_t batch, std::int64_t rows, std::int64_t cols) {
    const MatrixExtents extents = matrix_extents(shape);
    EXPECT_EQ(extents.batch, batch) << to_string(shape);
    EXPECT_EQ(extents.rows, rows) << to_string(shape);
    EXPECT_EQ(extents.cols, cols) << to_string(shape);
  };
  expect_extents({8, 3, 3, 3}, 1, 8, 27);
  expect_extents({2, 4, 4}, 2, 4, 4);
  expect_extents({2, 3, 4, 5, 6}, 1, 2, 360);
  expect_extents({6, 5}, 1, 6, 5);
  expect_extents({5}, 1, 1, 5);
  expect_extents({}, 1, 1, 1);

  const std::vector<MatrixPart> convolution = matrix_parts(parameter("c", {8, 3, 3, 3}));
  ASSERT_EQ(convolution.size(), 1U);
  expect_part(convolution[0], 0, 8, 27, 27, "");
  const std::vector<MatrixPart> experts = matrix_parts(parameter("e", {2, 4, 5}));
  ASSERT_EQ(experts.size(), 2U);
  expect_part(experts[0], 0, 4, 5, 5, "");
  expect_part(experts[1], 20, 4, 5, 5, "");
}

// CASES 14
TEST(ModelSpecs, row_blocks_are_matrices_of_their_own) {
  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{4, 4, 4}, {8, 2, 2}}) {
    ParameterSpec spec = parameter("qkv", {12, 4});
    spec.blocks = {0, {"query", "key", "value"}, sizes};
    const std::vector<MatrixPart> parts = matrix_parts(spec);
    ASSERT_EQ(parts.size(), 3U);
    expect_part(parts[0], 0, sizes[0], 4, 4, "query");
    expect_part(parts[1], 4 * sizes[0], sizes[1], 4, 4, "key");
    expect_part(parts[2], 4 * (sizes[0] + sizes[1]), sizes[2], 4, 4, "value");
    EXPECT_EQ(matrix_count(one_unit({spec})), 3);
  }
}

// CASES 13: the axis is explicit, because the sizes often divide both.
TEST(ModelSpecs, column_blocks_keep_the_stride) {
  ParameterSpec spec = parameter("fused", {6, 6});
  spec.blocks = {1, {"left", "right"}, {4, 2}};
  const std::vector<MatrixPart> parts = matrix_parts(spec);
  ASSERT_EQ(parts.size(), 2U);
  expect_part(parts[0], 0, 6, 4, 6, "left");
  expect_part(parts[1], 4, 6, 2, 6, "right");
}

TEST(ModelSpecs, blocks_of_a_batch_come_batch_by_batch) {
  ParameterSpec spec = parameter("experts", {2, 4, 3});
  spec.blocks = {0, {"gate", "up"}, {2, 2}};
  const std::vector<MatrixPart> parts = matrix_parts(spec);
  ASSERT_EQ(parts.size(), 4U);
  expect_part(parts[0], 0, 2, 3, 3, "gate");
  expect_part(parts[1], 6, 2, 3, 3, "up");
  expect_part(parts[2], 12, 2, 3, 3, "gate");
  expect_part(parts[3], 18, 2, 3, 3, "up");
}

// CASES 12: 4608 rows are gate, query, key and value; every other set of sizes is an error, never a guess.
TEST(ModelSpecs, block_sizes_must_sum_to_the_extent) {
  ParameterSpec spec = parameter("fused", {4608, 16});
  spec.blocks = {0, {"gate", "query", "key", "value"}, {2048, 2048, 256, 256}};
  EXPECT_NO_THROW(validate(one_unit({spec})));
  EXPECT_EQ(matrix_parts(spec)[3].offset, (2048 + 2048 + 256) * 16);

  for (const std::vector<std::int64_t>& sizes : {std::vector<std::int64_t>{2048, 2048, 256, 255},
                                                 {2048, 2048, 256, 257},
                                                 {4608, 4608, 4608, 4608},
                                                 {INT64_MAX, INT64_MAX, 2, 4608}}) {
    spec.blocks.sizes = sizes;
    const std::string message = test::message_of<InputError>([&] { validate(one_unit({spec})); });
    EXPECT_NE(message.find("fused"), std::string::npos) << message;
    EXPECT_NE(message.find("4608"), std::string::npos) << message;
    EXPECT_NE(message.find("rows"), std::string::npos) << message;
    EXPECT_THROW(matrix_parts(spec), InputError) << "also where nobody has validated";
  }
  spec.blocks = {1, {"left", "right"}, {2304, 2304}};  // right for the rows, wrong for the columns
  EXPECT_NE(test::message_of<InputError>([&] { validate(one_unit({spec})); }).find("16, the columns"),
            std::string::npos);
}

TEST(ModelSpecs, groups_and_counts) {
  ModelSpec model = one_unit({parameter("w", {3, 4}), test::frozen("f", {2, 5}), parameter("b", {7}),
                              parameter("batch", {3, 2, 2}), parameter("empty", {0, 8})});
  model.groups.push_back({"slow", 0.1, 0.0});
  model.units[0].parameters[0].group = "slow";
  EXPECT_EQ(element_count(model), 12 + 10 + 7 + 12);
  EXPECT_EQ(matrix_count(model), 1 + 3) << "frozen matrices are not orthogonalized";
  const ParameterGroup slow = group_of(model, model.units[0].parameters[0]);
  EXPECT_EQ(slow.name, "slow");
  EXPECT_EQ(slow.learning_rate_scale, 0.1);
  EXPECT_EQ(slow.weight_decay, 0.0);
  const ParameterGroup none = group_of(model, model.units[0].parameters[1]);
  EXPECT_EQ(none.learning_rate_scale, 1.0);
  EXPECT_FALSE(none.weight_decay.has_value());
  model.units[0].parameters[2].group = "fast";
  EXPECT_THROW(group_of(model, model.units[0].parameters[2]), InputError);
}

}  // namespace
}  // namespace matrixfsdp

#include <string>

#include <gtest/gtest.h>

#include <matrixfsdp/core/dtype.hpp>
#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp {
namespace {

TEST(DTypes, sizes_and_names) {
  EXPECT_EQ(size_of(DType::float32), 4U);
  EXPECT_EQ(size_of(DType::float64), 8U);
  EXPECT_EQ(size_of(DType::bfloat16), 2U);
  EXPECT_EQ(name_of(DType::float32), "float32");
  EXPECT_EQ(name_of(DType::float64), "float64");
  EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16})
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
}

TEST(DTypes, other_names_are_refused_with_the_name_and_what_was_expected) {
  for (const char* name : {"", "float", "Float32", "bf16", "float32 "}) {
    try {
      parse_dtype(name);
      FAIL() << "accepted '" << name << "'";
    } catch (const InputError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("'" + std::string(name) + "'"), std::string::npos) << message;
      EXPECT_NE(message.find("float32, float64 or bfloat16"), std::string::npos) << message;
    }
  }
}

TEST(DTypes, a_value_outside_the_enumeration_is_a_broken_contract) {
  EXPECT_THROW(size_of(static_cast<DType>(17)), ContractError);
  EXPECT_THROW(name_of(static_cast<DType>(17)), ContractError);
}

}  // namespace
}  // namespace matrixfsdp

#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "apps/ckpt/guarded.hpp"

namespace matrixfsdp {
namespace {

// CASES 64: what a crash of HDF5 would be.
TEST(CkptGuard, a_signal_is_a_line_and_exit_code_2) {
  for (const int signal : {SIGKILL, SIGABRT}) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(ckpt::run_guarded([&]() -> int { return std::raise(signal); }), 2);
    const std::string said = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("ended by signal " + std::to_string(signal)), std::string::npos) << said;
    EXPECT_NE(said.find("malformed"), std::string::npos) << said;
  }
}

TEST(CkptGuard, exit_codes_come_back) {
  for (const int code : {0, 1, 2})
    EXPECT_EQ(ckpt::run_guarded([&] { return code; }), code);
}

}  // namespace
}  // namespace matrixfsdp

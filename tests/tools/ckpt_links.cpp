#include <cstdlib>
#include <string>

#include <gtest/gtest.h>

#include "support/program.hpp"

namespace matrixfsdp {
namespace {

// A login node has no GPU and no place in a job: neither MPI nor Kokkos is even loaded.
TEST(CkptProgram, loads_neither_mpi_nor_kokkos) {
  const auto result = testing::run_program({"ldd", MATRIXFSDP_CKPT});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("hdf5"), std::string::npos) << "the list is one of libraries";
  for (const char* word : {"libmpi", "kokkos", "openblas", "cuda"})
    EXPECT_EQ(result.out.find(word), std::string::npos) << result.out;
}

TEST(CkptProgram, help_and_version) {
  const auto help = testing::run_program({MATRIXFSDP_CKPT, "--help"});
  EXPECT_EQ(help.exit_code, 0);
  for (const char* word : {"ls", "show", "verify", "diff", "reshard", "export", "import", "Exit codes"})
    EXPECT_NE(help.out.find(word), std::string::npos) << word;
  const auto diff = testing::run_program({MATRIXFSDP_CKPT, "diff", "--help"});
  EXPECT_EQ(diff.exit_code, 0);
  for (const char* word : {"--rtol", "--atol", "--all", "--json"})
    EXPECT_NE(diff.out.find(word), std::string::npos) << word;
  const auto version = testing::run_program({MATRIXFSDP_CKPT, "--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_EQ(version.out.rfind("MatrixFSDP ", 0), 0U) << version.out;
}

}  // namespace
}  // namespace matrixfsdp

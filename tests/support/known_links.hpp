#pragma once

#include <string>

#include <gtest/gtest.h>

#include "support/program.hpp"

namespace matrixfsdp::testing {

/// A file of collective_profile for `ranks` on one node, of this test: with --collective-profile a benchmark needs no
/// calibration, which takes seconds.
inline std::string known_links(int ranks) {
  const ::testing::TestInfo& test = *::testing::UnitTest::GetInstance()->current_test_info();
  std::string path = fresh_folder(std::string("links-") + test.test_suite_name() + "-" + test.name()) + "/links";
  write_file(path, collective_profile(ranks, 1));
  return path;
}

}  // namespace matrixfsdp::testing

#include <cstdio>
#include <optional>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/session.hpp>

#include "support/mpi_world.hpp"

namespace matrixfsdp::testing {
namespace {

constexpr std::chrono::seconds test_deadline{30};

// Tests are free functions: what they share has to be reachable without an argument.
std::optional<Communicator> shared_world;

void open_world() {
  shared_world.emplace(mpi::duplicate(MPI_COMM_WORLD, test_deadline));
  shared_world->set_deadline(test_deadline);
}

/// After each test all ranks tell whether it failed, so that a failure on any rank is one on every rank. A failed test
/// may leave its messages behind: the next one gets a fresh world.
class AgreeOnFailures : public ::testing::EmptyTestEventListener {
 public:
  explicit AgreeOnFailures(Communicator& control) : control_(control) {}

  void OnTestPartResult(const ::testing::TestPartResult& result) override {
    if (control_.rank() == 0 || !result.failed()) return;
    std::fprintf(stderr, "rank %d: %s:%d: %s\n", control_.rank(),
                 result.file_name() == nullptr ? "" : result.file_name(), result.line_number(), result.message());
  }

  void OnTestEnd(const ::testing::TestInfo& test) override {
    const bool failed = test.result()->Failed();
    bool anywhere = false;
    for (const bool other : all_gather_value(control_, Purpose::other, failed, {"end of test", test.name(), ""})) {
      anywhere = anywhere || other;
    }
    if (!anywhere) return;
    if (!failed) ADD_FAILURE() << test.name() << " failed on another rank";
    open_world();
  }

 private:
  Communicator& control_;
};

}  // namespace

Communicator& world() {
  return *shared_world;
}

Communicator duplicate_world() {
  Communicator copy = mpi::duplicate(MPI_COMM_WORLD, test_deadline);
  copy.set_deadline(test_deadline);
  return copy;
}

namespace {

int run_tests(int& argc, char**& argv) {
  SessionOptions options;
  options.deadline = 2 * test_deadline;  // a failed test may keep the slowest rank that long
  Session session = Session::start(argc, argv, options);
  open_world();
  auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
  if (session.world().rank() != 0) delete listeners.Release(listeners.default_result_printer());
  AgreeOnFailures agreement(session.world());
  listeners.Append(&agreement);
  const int code = RUN_ALL_TESTS();
  listeners.Release(&agreement);
  shared_world.reset();
  return code;
}

}  // namespace
}  // namespace matrixfsdp::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  return matrixfsdp::run_main([&] { return matrixfsdp::testing::run_tests(argc, argv); });
}

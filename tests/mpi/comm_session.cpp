#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/error.hpp>

#include "comm/devices.hpp"
#include "comm/launcher.hpp"
#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"

namespace matrixfsdp {
namespace {

using testing::value_at;
using testing::world;

const OperationLabel label{"exchange", "", "test"};

TEST(CommSession, adopt_leaves_mpi_and_kokkos_running) {
  {
    Session session = Session::adopt(MPI_COMM_WORLD);
    EXPECT_EQ(session.world().rank(), world().rank());
    EXPECT_EQ(session.world().size(), world().size());
    EXPECT_GE(session.local_rank(), 0);
    EXPECT_LT(session.local_rank(), session.local_size());
    EXPECT_GE(session.nodes(), 1);
    const auto sizes = all_gather_value(world(), Purpose::other, session.local_size(), label);
    EXPECT_GE(std::accumulate(sizes.begin(), sizes.end(), 0), world().size());
    session.world().barrier(label);
  }
  EXPECT_TRUE(Kokkos::is_initialized());
  int finalized = 1;
  MPI_Finalized(&finalized);
  EXPECT_EQ(finalized, 0);
  world().barrier(label);
}

// CASES 41: CTest runs this also with simulated node layouts.
TEST(CommSession, nodes_and_local_ranks_fit_together) {
  Session session = Session::adopt(MPI_COMM_WORLD);
  const auto local_ranks = all_gather_value(world(), Purpose::other, session.local_rank(), label);
  EXPECT_EQ(std::count(local_ranks.begin(), local_ranks.end(), 0), session.nodes());
  const std::string text = session.description();
  const std::string begin = std::to_string(world().size()) + (world().size() == 1 ? " rank on " : " ranks on ") +
                            std::to_string(session.nodes());
  EXPECT_EQ(text.substr(0, begin.size()), begin);
  EXPECT_NE(text.find(std::string("Kokkos ")), std::string::npos) << text;
  EXPECT_NE(text.find(ExecutionSpace::name()), std::string::npos) << text;
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  EXPECT_EQ(text.find('\t'), std::string::npos) << text;
}

TEST(CommSession, start_is_refused_where_mpi_is_running) {
  int argc = 0;
  char** argv = nullptr;
  EXPECT_THROW(Session::start(argc, argv), ContractError);
}

/// CASES 42: MPICH has 2048 context ids; none may be lost. Splits block, and block for long with more ranks than cores:
/// there a few must do.
int many() {
  return world().size() <= 2 ? 3000 : 10;
}

TEST(CommSession, sessions_come_and_go_again_and_again) {
  for (int i = 0; i < many(); ++i) {
    Session session = Session::adopt(MPI_COMM_WORLD);
    if (i % 500 == 0) session.world().barrier(label);
  }
}

TEST(CommSession, parts_come_and_go_again_and_again) {
  for (int i = 0; i < many(); ++i) {
    Communicator part = mpi::split(MPI_COMM_WORLD, world().rank() % 2, 0);
    Communicator moved = std::move(part);
    if (i % 500 == 0) moved.barrier(label);
  }
}

// Two groups of a mesh at once, each with its own messages and its own counts.
TEST(CommSession, groups_of_a_split_work_side_by_side) {
  const int color = world().rank() % 2;
  Communicator row = mpi::split(MPI_COMM_WORLD, color, -world().rank());
  Communicator other = mpi::split(MPI_COMM_WORLD, world().rank() / 2, 0);
  EXPECT_EQ(row.size(), (world().size() + 1 - color) / 2);
  EXPECT_LE(other.size(), 2);

  const auto members = all_gather_value(row, Purpose::other, world().rank(), label);
  for (std::size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ(members[i] % 2, color);
    if (i > 0) {
      EXPECT_LT(members[i], members[i - 1]) << "ordered by the key";
    }
  }
  const SegmentTable row_table = even_table(100000 + 7, row.size());
  const SegmentTable other_table = even_table(50000 + 3, other.size());
  const auto shard_of = [](const SegmentTable& table, Communicator& communicator, std::uint64_t stream) {
    const Interval interval = table.intervals[static_cast<std::size_t>(communicator.rank())][0];
    Tensor<float> shard = make_tensor<float>("shard", interval.size());
    for (std::int64_t i = 0; i < interval.size(); ++i) {
      shard(static_cast<std::size_t>(i)) = value_at(stream, interval.begin + i);
    }
    return shard;
  };
  const auto row_stream = static_cast<std::uint64_t>(color);
  const auto other_stream = static_cast<std::uint64_t>(100 + world().rank() / 2);
  const Tensor<float> row_shard = shard_of(row_table, row, row_stream);
  const Tensor<float> other_shard = shard_of(other_table, other, other_stream);
  const Tensor<float> row_buffer = make_zeros<float>("row", row_table.size);
  const Tensor<float> other_buffer = make_zeros<float>("other", other_table.size);
  Request a = gather(row, Purpose::unshard, testing::unshard_of(row, row_table), row_shard, row_buffer, label);
  Request b =
      gather(other, Purpose::unshard, testing::unshard_of(other, other_table), other_shard, other_buffer, label);
  b.wait();
  a.wait();
  for (std::size_t i = 0; i < row_buffer.size(); ++i) {
    ASSERT_EQ(row_buffer(i), value_at(row_stream, static_cast<std::int64_t>(i)));
  }
  for (std::size_t i = 0; i < other_buffer.size(); ++i) {
    ASSERT_EQ(other_buffer(i), value_at(other_stream, static_cast<std::int64_t>(i)));
  }
}

TEST(CommSession, adopt_uses_the_callers_communicator) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  {
    Communicator adopted = mpi::adopt(comm);
    EXPECT_EQ(adopted.rank(), world().rank());
    adopted.barrier(label);
  }
  int size = 0;
  EXPECT_EQ(MPI_Comm_size(comm, &size), MPI_SUCCESS);
  EXPECT_EQ(size, world().size());
  MPI_Comm_free(&comm);
  EXPECT_THROW(mpi::adopt(MPI_COMM_NULL), ContractError);
  EXPECT_THROW(mpi::split(MPI_COMM_WORLD, -1, 0), ContractError);
}

// A rank that does not take part: an error at the deadline instead of a hang.
TEST(CommSession, split_has_a_deadline) {
  if (world().size() == 1) return;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (world().rank() != 0) {
    EXPECT_THROW(mpi::split(comm, 0, 0, std::chrono::milliseconds(50)), CommunicationError);
  }
  world().barrier(label);
}

// The rank that was missing comes later: the others complete the copy they have given up, and MPI can end.
TEST(CommSession, duplicate_has_a_deadline) {
  if (world().size() == 1) return;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  if (world().rank() != 0) {
    EXPECT_THROW(mpi::duplicate(comm, std::chrono::milliseconds(50)), CommunicationError);
  }
  world().barrier(label);
  if (world().rank() == 0) {
    EXPECT_EQ(mpi::duplicate(comm, std::chrono::seconds(30)).size(), world().size());
  }
  world().barrier(label);
}

/// Environment of a test.
std::string mismatch(int world_size, const std::map<std::string, std::string>& variables) {
  return launcher_mismatch(world_size, [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// CASES 66: a wrong PMI makes every process rank 0 of 1.
TEST(CommSession, a_wrong_launcher_is_recognised) {
  const std::map<std::string, std::string> step{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "2"}};
  const auto with = [&](std::map<std::string, std::string> more) {
    more.insert(step.begin(), step.end());
    return more;
  };
  EXPECT_EQ(mismatch(1, {}), "");
  EXPECT_EQ(mismatch(4, with({{"SLURM_NTASKS", "4"}})), "");
  EXPECT_EQ(mismatch(2, with({{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "2"}})), "") << "a step of a larger job";
  EXPECT_EQ(mismatch(1, with({{"SLURM_NTASKS", "1"}})), "");
  EXPECT_EQ(mismatch(8, with({{"SLURM_STEP_NUM_TASKS", "2"}, {"MPI_LOCALNRANKS", "4"}})), "") << "hydra's own daemons";
  EXPECT_EQ(mismatch(8, {{"SLURM_NTASKS", "4"}}), "") << "mpiexec in an allocation";

  const std::string message = mismatch(1, with({{"SLURM_NTASKS", "4"}}));
  EXPECT_NE(message.find("world size 1: SLURM_NTASKS says 4 tasks"), std::string::npos) << message;
  EXPECT_NE(message.find("srun --mpi=pmi2"), std::string::npos) << message;
  EXPECT_NE(mismatch(1, {{"SLURM_NTASKS", "4"}}), "");
  EXPECT_NE(mismatch(1, with({{"SLURM_NTASKS", "1"}, {"SLURM_STEP_NUM_TASKS", "4"}})), "");
  EXPECT_NE(mismatch(2, with({{"SLURM_STEP_NUM_TASKS", "4"}})), "");
}

// CASES 67: two ranks on one device by accident.
TEST(CommSession, ranks_take_devices_in_turn) {
  const std::vector<int> first_four = {device_of(0, 4), device_of(1, 4), device_of(2, 4), device_of(3, 4)};
  EXPECT_EQ(first_four, (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(device_of(5, 4), 1) << "more ranks than devices";
  EXPECT_EQ(device_of(3, 1), 0) << "a launcher that shows each rank one device";
}

TEST(CommSession, ranks_that_share_a_device_are_named) {
  const std::vector<std::string> own = {"01:00.0 on node a", "02:00.0 on node a", "01:00.0 on node b"};
  EXPECT_EQ(shared_devices(own), "");
  EXPECT_EQ(count_devices(own), 3);

  const std::vector<std::string> shared = {"01:00.0 on node a", "02:00.0 on node a", "01:00.0 on node a",
                                           "01:00.0 on node a", "02:00.0 on node a", "01:00.0 on node b"};
  EXPECT_EQ(shared_devices(shared),
            "ranks 0, 2, 3 share device 01:00.0 on node a; ranks 1, 4 share device 02:00.0 on node a: expected one "
            "device per rank");
  EXPECT_EQ(count_devices(shared), 3);

  EXPECT_EQ(shared_devices({"", ""}), "") << "kernels on the host";
  EXPECT_EQ(count_devices({"", ""}), 0);
}

}  // namespace
}  // namespace matrixfsdp

#include <gtest/gtest.h>

#include <matrixfsdp/schema/collective_profile.hpp>

#include "apps/train/collective_profile.hpp"
#include "support/mpi_world.hpp"
#include "support/temporary_folder.hpp"

/// What a file of a calibration does to the job that reads it.
namespace matrixfsdp {
namespace {

TEST(TrainerLinks, a_calibration_that_was_kept_is_read_on_all_ranks) {
  const testing::TemporaryFolder folder;  // rank 0 reads its own
  const std::string path = folder.path() + "/links.json";
  Communicator communicator = testing::duplicate_world();
  const Topology nodes = make_topology(communicator.size(), 1);
  CollectiveProfile kept;
  kept.world_size = kept.nodes = communicator.size();
  LinkModel link;
  link.alpha_seconds = 1e-4;
  link.beta_seconds_per_byte = 4e-8;
  if (communicator.size() > 1) kept.between = link;
  io::write_collective_profile(path, kept);
  const CollectiveProfile read = train::collective_profile(communicator, nodes, path);
  EXPECT_EQ(hash_of(read), hash_of(kept));
}

}  // namespace
}  // namespace matrixfsdp

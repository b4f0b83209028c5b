#include <gtest/gtest.h>

#include "support/comm_tables.hpp"
#include "support/mpi_world.hpp"
#include "support/pmpi_bytes.hpp"

namespace matrixfsdp {
namespace {

using testing::world;

const OperationLabel label{"counted", "", ""};

/// What the library says it has sent, and what the interposer has seen, since this was made.
class Since {
 public:
  [[nodiscard]] std::int64_t counted() const { return world().bytes().total() - library_; }
  [[nodiscard]] std::int64_t interposer() const { return matrixfsdp_pmpi_bytes() - interposer_; }

 private:
  std::int64_t library_ = world().bytes().total();
  std::int64_t interposer_ = matrixfsdp_pmpi_bytes();
};

// Every byte that goes to MPI has a purpose: each kind of operation against the independent count.
TEST(CommBytes, an_independent_interposer_counts_the_same) {
  const Since beginning;
  for (const auto& [name, table] : testing::all_tables(world().size())) {
    const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(world().rank()));
    const Tensor<float> buffer = make_zeros<float>("buffer", table.size);
    const SegmentTable even = even_table(table.size, world().size());
    const Tensor<float> sums = make_zeros<float>("sums", even.shard_size(world().rank()));
    const Since gathered;
    gather(world(), Purpose::unshard, testing::unshard_of(world(), table), shard, buffer, label).wait();
    EXPECT_EQ(gathered.counted(), gathered.interposer()) << name;
    const Since folded;
    testing::reduce_evenly(world(), table.size, true, buffer, sums, label).wait();
    EXPECT_EQ(folded.counted(), folded.interposer()) << name;
    const Reduce scatter = prepare_reduce(CollectiveAlgorithm::scatter, table);
    const Tensor<float> others = make_zeros<float>("sums", running_sum_elements(scatter, world().rank()));
    const Since reduced;
    reduce(world(), scatter, {}, buffer, others, shard, label).wait();
    EXPECT_EQ(reduced.counted(), reduced.interposer()) << name;
  }
  for (const std::size_t size : {0U, 10U, 5000U}) {
    const std::vector<std::byte> data(size + static_cast<std::size_t>(world().rank()));
    const Since gathered;
    world().all_gather(Purpose::clip, data, label);
    EXPECT_EQ(gathered.counted(), gathered.interposer());
    const Since broadcast;
    world().broadcast(Purpose::optimizer, data, world().size() - 1, label);
    EXPECT_EQ(broadcast.counted(), broadcast.interposer());
  }
  world().barrier(label);
  agree_on_input(world(), "");
  require_equal(world(), 1, "one");
  EXPECT_EQ(beginning.counted(), beginning.interposer());
  EXPECT_EQ(world().size() == 1, beginning.interposer() == 0) << "the interposer is not linked before MPI";
  EXPECT_STREQ(matrixfsdp_pmpi_other_calls(), "");
}

}  // namespace
}  // namespace matrixfsdp

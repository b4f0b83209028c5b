#include <chrono>
#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <matrixfsdp/core/error.hpp>

#include "support/agree.hpp"
#include "support/comm_tables.hpp"
#include "support/messages.hpp"
#include "support/nccl_attached.hpp"
#include "support/nccl_double/control.hpp"

/// What only the host double can make happen.
namespace matrixfsdp {
namespace {

using nccl::GatherBy;
using nccl_double::faults;
using test::mentions;
using test::message_of;
using testing::Attached;
using testing::unshard_of;
using testing::world;

const OperationLabel label{"unshard", "block.7", "backward"};

/// Ends every fault, and fails the test where something was left or a rule was broken.
class NcclFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    faults() = {};
    nccl_double::take_misuses();
    nccl_double::take_calls();
  }
  void TearDown() override {
    faults() = {};
    const auto left = nccl_double::alive();
    EXPECT_EQ(left.communicators, 0U);
    EXPECT_EQ(left.streams, 0U);
    EXPECT_EQ(left.events, 0U);
    for (const std::string& misuse : nccl_double::take_misuses())
      ADD_FAILURE() << "rank " << world().rank() << ": " << misuse;
  }

  static Request start(Communicator& communicator, const SegmentTable& table, const Tensor<float>& buffer) {
    shard_ = make_zeros<float>("shard", table.shard_size(world().rank()));
    return gather(communicator, Purpose::unshard, unshard_of(communicator, table), shard_, buffer, label);
  }

  static void TearDownTestSuite() { shard_ = {}; }

  static inline Tensor<float> shard_;
};

TEST_F(NcclFailures, everything_is_given_back) {
  {
    Attached nccl;
    ASSERT_TRUE(nccl.active());
    EXPECT_EQ(nccl_double::alive().communicators, 1U);
    const SegmentTable table = testing::dealt_table(world().size(), 5, 100);
    start(nccl.communicator, table, make_zeros<float>("buffer", table.size)).wait();
  }
  EXPECT_EQ(nccl_double::alive().communicators, 0U);
}

// CASES 67
TEST_F(NcclFailures, two_ranks_on_one_device_are_told_and_stay_with_mpi) {
  if (world().size() == 1) return;
  faults().one_device = true;
  Attached nccl;
  EXPECT_FALSE(nccl.active());
  EXPECT_TRUE(mentions(nccl.attachment.description(),
                       {"segments stay with MPI: ranks 0 and 1 share device GPU-07000000-0000-0000-0000-000000000000 "
                        "(host double): expected one device per rank"}));
  const SegmentTable table = testing::dealt_table(world().size(), 5, 100);
  start(nccl.communicator, table, make_zeros<float>("buffer", table.size)).wait();
  EXPECT_EQ(nccl_double::take_calls().sends, 0U);
}

// One rank without a device keeps all with MPI, and all say the same.
TEST_F(NcclFailures, a_rank_without_a_device_keeps_all_with_mpi) {
  const int odd = world().size() - 1;
  faults().no_device = world().rank() == odd;
  const Attached nccl;
  EXPECT_FALSE(nccl.active());
  EXPECT_EQ(
      nccl.attachment.description(),
      fmt::format("segments stay with MPI: rank {}: cudaGetDevice failed with code 100: no CUDA-capable device is "
                  "detected",
                  odd));
}

TEST_F(NcclFailures, tensors_that_no_device_reaches_stay_with_mpi) {
  faults().unreachable_memory = true;
  const Attached nccl;
  EXPECT_FALSE(nccl.active());
  EXPECT_TRUE(mentions(nccl.attachment.description(), {"rank 0: no device reaches tensors in Host"}));
}

TEST_F(NcclFailures, an_initialisation_that_never_completes_is_a_missed_deadline) {
  faults().init_never_ends = world().rank() == 0;
  Communicator own = testing::duplicate_world();
  own.set_deadline(std::chrono::seconds(2));
  const std::string message = message_of<CommunicationError>([&] { nccl::attach(own); });
  // Whoever gives up first may be what the others see.
  EXPECT_TRUE(mentions(message, {fmt::format("rank {}: attach NCCL: ", world().rank())}));
  if (world().size() == 1) {
    EXPECT_TRUE(mentions(message, {"the communicator is not ready after 2.0 s (deadline)"}));
  }
}

// An error that NCCL meets in the background becomes ours, with the label of what was waited for; the rank aborts, and
// its peers meet that instead of waiting for ever.
TEST_F(NcclFailures, an_asynchronous_error_is_told_with_its_label_and_ends_all_ranks) {
  Attached nccl({GatherBy::broadcast, nccl::most_group_operations});  // a single rank broadcasts too
  ASSERT_TRUE(nccl.active());
  nccl.communicator.set_deadline(std::chrono::seconds(10));
  const SegmentTable table = testing::dealt_table(world().size(), 5, 100000);
  const Tensor<float> buffer = make_zeros<float>("buffer", table.size);
  faults().stuck_groups = true;
  Request request = start(nccl.communicator, table, buffer);
  world().barrier({"all have issued", "", ""});
  if (world().rank() == world().size() - 1) nccl_double::inject(ncclSystemError);
  const std::string message = message_of<CommunicationError>([&] { request.wait(); });
  EXPECT_TRUE(mentions(message, {fmt::format("rank {}: unshard of unit block.7 (backward), sequence ", world().rank()),
                                 "NCCL failed with code"}));
  EXPECT_FALSE(mentions(message, {"not complete after"})) << message;
  EXPECT_TRUE(mentions(message_of<CommunicationError>([&] { start(nccl.communicator, table, buffer).wait(); }),
                       {"unshard of unit block.7 (backward)", "was aborted: NCCL failed with code"}));
  faults().stuck_groups = false;
}

// A group that NCCL never gets to launch, and one whose work never ends.
TEST_F(NcclFailures, a_deadline_tells_how_far_it_came) {
  Attached nccl({GatherBy::broadcast, nccl::most_group_operations});  // a single rank broadcasts too
  ASSERT_TRUE(nccl.active());
  nccl.communicator.set_deadline(std::chrono::milliseconds(300));
  const SegmentTable table = testing::dealt_table(world().size(), 5, 100);
  const Tensor<float> buffer = make_zeros<float>("buffer", table.size);
  faults().stuck_groups = true;
  const std::string message = message_of<CommunicationError>([&] { start(nccl.communicator, table, buffer).wait(); });
  EXPECT_TRUE(mentions(message, {"unshard of unit block.7 (backward)"}));
  if (world().size() == 1) {
    EXPECT_TRUE(mentions(message, {"not complete after 0.3 s (deadline 0.3 s): all of it is with NCCL, and the stream "
                                   "has not come to its end"}));
  }
  faults().stuck_groups = false;
}

// The attachment's destructor runs while an exception unwinds on one rank: it waits for nobody.
TEST_F(NcclFailures, an_exception_that_unwinds_an_attachment_waits_for_nobody) {
  if (world().size() == 1) return;
  if (world().rank() == 0) {
    EXPECT_THROW(
        {
          const Attached nccl;
          throw InputError("something else");
        },
        InputError);
    return;
  }
  Attached nccl;
  const SegmentTable table = even_table(100000, world().size());
  const Tensor<float> buffer = make_zeros<float>("buffer", table.size);
  const std::string message = message_of<CommunicationError>([&] { start(nccl.communicator, table, buffer).wait(); });
  EXPECT_TRUE(mentions(message, {"NCCL failed with code 6"}) ||
              mentions(message, {"ncclGroupEnd", "failed with code 6", "a peer has aborted"}))
      << "an abort, found while waiting or at once, not a deadline: " << message;
}

/// Addresses without memory behind them.
class Addresses {
 public:
  explicit Addresses(std::int64_t elements)
      : bytes_(static_cast<std::size_t>(4 * elements)),
        data_(mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  Addresses(const Addresses&) = delete;
  Addresses& operator=(const Addresses&) = delete;
  ~Addresses() { munmap(data_, bytes_); }

  [[nodiscard]] bool valid() const { return data_ != MAP_FAILED; }
  [[nodiscard]] float* get() const { return static_cast<float*>(data_); }

 private:
  std::size_t bytes_;
  void* data_;
};

// CASES 43: counts and offsets beyond 2^32 reach NCCL whole, in both ways.
TEST_F(NcclFailures, counts_beyond_two_to_the_32nd_reach_nccl_whole) {
  if (world().size() == 1) return;
  const std::int64_t large = (std::int64_t{5} << 30) + 3;  // elements of rank 1: 20 GiB
  std::vector<std::int64_t> owned(static_cast<std::size_t>(world().size()), 2);
  owned[1] = large;
  const SegmentTable table = testing::owner_table(owned, 0);
  const Addresses buffer(table.size);
  const Addresses shard(table.shard_size(world().rank()));
  const bool there = buffer.valid() && shard.valid();
  if (!testing::first_of_all_ranks(there ? "" : "no addresses").empty())
    GTEST_SKIP() << "no room for 20 GiB of addresses";
  faults().moves_no_data = true;
  for (const GatherBy way : {GatherBy::send_recv, GatherBy::broadcast}) {
    nccl_double::take_calls();
    Attached nccl({way, nccl::most_group_operations});
    gather(nccl.communicator, Purpose::unshard, unshard_of(world(), table),
           TensorView<const float>(shard.get(), static_cast<std::size_t>(table.shard_size(world().rank()))),
           TensorView<float>(buffer.get(), static_cast<std::size_t>(table.size)), label)
        .wait();
    EXPECT_EQ(nccl_double::take_calls().most_elements, static_cast<std::size_t>(large));
    if (world().rank() == 1) {
      EXPECT_EQ(nccl.communicator.bytes()[Purpose::unshard], 4 * large * (world().size() - 1));
    }
  }
}

// automatic: the rule of nccl.hpp.
TEST_F(NcclFailures, broadcasts_are_taken_where_the_rule_says_so) {
  const auto broadcasts_of = [](const SegmentTable& table) {
    Attached nccl;
    nccl_double::take_calls();
    start(nccl.communicator, table, make_zeros<float>("buffer", table.size)).wait();
    return nccl_double::take_calls().broadcasts;
  };
  std::vector<std::int64_t> owned(static_cast<std::size_t>(world().size()), 0);
  owned.back() = 64 * 1024;
  EXPECT_EQ(broadcasts_of(testing::owner_table(owned, 0)), world().size() >= 3 ? 1U : 0U);
  owned.back() -= 1;  // below 256 KiB
  EXPECT_EQ(broadcasts_of(testing::owner_table(owned, 0)), 0U);
  EXPECT_EQ(broadcasts_of(even_table(256 * 1024, world().size())), 0U);
}

TEST_F(NcclFailures, groups_have_no_more_operations_than_asked_for) {
  const SegmentTable table = testing::dealt_table(world().size(), 65, 5000);
  for (const int most : {2, 3, 4, 7}) {
    for (const GatherBy way : {GatherBy::send_recv, GatherBy::broadcast}) {
      Attached nccl({way, most});
      nccl_double::take_calls();
      start(nccl.communicator, table, make_zeros<float>("buffer", table.size)).wait();
      EXPECT_LE(nccl_double::take_calls().longest_group, static_cast<std::size_t>(most));
    }
  }
}

// As many blocks as a holder has room for are one message where they lie behind one another.
TEST_F(NcclFailures, neighbouring_blocks_of_a_reduce_are_one_message) {
  const auto others = static_cast<std::size_t>(world().size() - 1);
  const auto sends_of = [](const SegmentTable& table) {
    Attached nccl;
    const Reduce prepared = prepare_reduce(CollectiveAlgorithm::direct, table);
    const Tensor<float> gradient = testing::gradient_of(table.size, world().rank());
    const Tensor<float> sums = make_zeros<float>("sums", running_sum_elements(prepared, world().rank()));
    const Tensor<float> shard = make_zeros<float>("shard", table.shard_size(world().rank()));
    nccl_double::take_calls();
    reduce(nccl.communicator, prepared, {}, gradient, sums, shard, label).wait();
    for (std::size_t i = 0; i < shard.size(); ++i) {
      const std::int64_t first = table.intervals[static_cast<std::size_t>(world().rank())][0].begin;
      EXPECT_EQ(shard(i), testing::folded(first + static_cast<std::int64_t>(i), world().size())) << i;
    }
    return nccl_double::take_calls().sends;
  };
  EXPECT_EQ(sends_of(even_table(reduce_room * world().size(), world().size())), others);
  EXPECT_EQ(sends_of(even_table((reduce_room + 1) * world().size(), world().size())), 2 * others);
}

}  // namespace
}  // namespace matrixfsdp

#include <array>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/messages.hpp"
#include "support/mpi_world.hpp"
#include "support/nccl_double/control.hpp"

/// The rules of NCCL and CUDA that the double checks (each cited where it is checked, in tests/support/nccl_double): a
/// misuse of each is found.
namespace matrixfsdp {
namespace {

using nccl_double::faults;
using nccl_double::take_misuses;
using testing::world;

constexpr std::size_t count = 1000;

class NcclDouble : public ::testing::Test {
 protected:
  void SetUp() override {
    faults() = {};
    take_misuses();
    cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking);
    next_ = (world().rank() + 1) % world().size();
    previous_ = (world().rank() + world().size() - 1) % world().size();
    mine_.assign(count, static_cast<float>(world().rank()));
    theirs_.assign(count, -1);
  }
  void TearDown() override {
    world().barrier({"no rank needs the others any more", "", ""});
    faults() = {};
    if (comm_ != nullptr) ncclCommAbort(comm_);
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
    take_misuses();
  }

  /// The id of rank 0, on every rank.
  static ncclUniqueId shared_id() {
    ncclUniqueId id{};
    if (world().rank() == 0) {
      EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    }
    const auto bytes = world().broadcast(Purpose::other, std::as_bytes(std::span(&id, 1)), 0, {"id", "", ""});
    std::memcpy(&id, bytes.data(), sizeof(id));
    return id;
  }

  static ncclConfig_t non_blocking() {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    return config;
  }

  /// What the communicator says once it is no longer in progress; ncclInProgress after 20 seconds.
  ncclResult_t settle() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress && std::chrono::steady_clock::now() < end) {
      EXPECT_EQ(ncclCommGetAsyncError(comm_, &state), ncclSuccess);
      std::this_thread::yield();
    }
    return state;
  }

  void open() {
    ncclConfig_t config = non_blocking();
    ASSERT_EQ(ncclCommInitRankConfig(&comm_, world().size(), shared_id(), world().rank(), &config), ncclInProgress);
    ASSERT_EQ(settle(), ncclSuccess);
    world().barrier({"all are ready", "", ""});
  }

  /// The stream runs empty within `time`.
  bool idle_within(std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    ncclResult_t state = ncclSuccess;
    while (std::chrono::steady_clock::now() < end) {
      if (cudaStreamQuery(stream_) == cudaSuccess) return true;
      if (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state != ncclSuccess && state != ncclInProgress)
        return false;
      std::this_thread::yield();
    }
    return false;
  }

  ncclResult_t send(std::size_t elements = count) {
    return ncclSend(mine_.data(), elements, ncclFloat32, next_, comm_, stream_);
  }
  ncclResult_t receive(std::size_t elements = count) {
    return ncclRecv(theirs_.data(), elements, ncclFloat32, previous_, comm_, stream_);
  }

  static void expect_misuse(const std::string& text) {
    const auto misuses = take_misuses();
    ASSERT_FALSE(misuses.empty()) << "nothing was noticed; expected: " << text;
    EXPECT_TRUE(test::mentions(misuses.front(), {text}));
  }

  cudaStream_t stream_ = nullptr;
  ncclComm_t comm_ = nullptr;
  int next_ = 0;
  int previous_ = 0;
  std::vector<float> mine_;
  std::vector<float> theirs_;
};

TEST_F(NcclDouble, a_ring_of_sends_and_receives_in_a_group_arrives) {
  open();
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(send(), ncclSuccess);
  EXPECT_EQ(receive(), ncclSuccess);
  const ncclResult_t code = ncclGroupEnd();
  EXPECT_TRUE(code == ncclSuccess || code == ncclInProgress);
  EXPECT_EQ(theirs_[0], -1) << "work happens later than the call";
  EXPECT_EQ(settle(), ncclSuccess);
  EXPECT_TRUE(idle_within(std::chrono::seconds(10)));
  EXPECT_EQ(theirs_, std::vector<float>(count, static_cast<float>(previous_)));
  EXPECT_EQ(ncclCommFinalize(comm_), ncclInProgress);
  EXPECT_EQ(settle(), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess);
  comm_ = nullptr;
  EXPECT_TRUE(take_misuses().empty());
}

TEST_F(NcclDouble, the_same_without_a_group_never_ends) {
  if (world().size() == 1) return;
  open();
  send();
  EXPECT_EQ(settle(), ncclSuccess);
  receive();
  EXPECT_EQ(settle(), ncclSuccess);
  EXPECT_FALSE(idle_within(std::chrono::milliseconds(300)));
}

TEST_F(NcclDouble, a_group_end_without_a_start_is_refused) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  expect_misuse("ncclGroupEnd without ncclGroupStart");
}

TEST_F(NcclDouble, the_2049th_operation_of_a_group_is_refused) {
  open();
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  for (int i = 0; i < 2048; ++i)
    ASSERT_EQ(send(1), ncclSuccess);
  EXPECT_EQ(send(1), ncclInvalidUsage);
  expect_misuse("more than 2048 operations");
  ncclGroupEnd();
}

TEST_F(NcclDouble, counts_that_differ_are_found) {
  open();
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  send(count - 1);
  receive(count);
  ncclGroupEnd();
  settle();
  EXPECT_FALSE(idle_within(std::chrono::seconds(10)));
  EXPECT_EQ(settle(), ncclInvalidUsage);
  expect_misuse("expects 1000 elements");
}

TEST_F(NcclDouble, types_that_differ_are_found) {
  open();
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  ncclSend(mine_.data(), count, ncclBfloat16, next_, comm_, stream_);
  receive(count);
  ncclGroupEnd();
  settle();
  EXPECT_FALSE(idle_within(std::chrono::seconds(10)));
  expect_misuse("of type 7");
}

// nccl#788 (CASES 44): one side skips a message that the other expects.
TEST_F(NcclDouble, a_receive_that_nobody_sends_to_never_ends) {
  open();
  receive(0);
  settle();
  EXPECT_FALSE(idle_within(std::chrono::milliseconds(200)));
}

TEST_F(NcclDouble, roots_that_differ_are_found) {
  if (world().size() == 1) return;
  open();
  ncclBroadcast(mine_.data(), theirs_.data(), count, ncclFloat32, 0, comm_, stream_);
  settle();
  ncclBroadcast(mine_.data(), theirs_.data(), count, ncclFloat32, world().rank() == 0 ? 0 : 1, comm_, stream_);
  settle();
  EXPECT_TRUE(!idle_within(std::chrono::milliseconds(300)) || world().rank() > 1) << "two roots, and all came through";
}

TEST_F(NcclDouble, collectives_in_another_order_are_found) {
  if (world().size() == 1) return;
  open();
  const std::size_t first = world().rank() == 0 ? 10 : 20;
  for (const std::size_t elements : {first, 30 - first}) {
    ncclBroadcast(mine_.data(), theirs_.data(), elements, ncclFloat32, 0, comm_, stream_);
    settle();
  }
  idle_within(std::chrono::milliseconds(500));
  if (world().rank() != 0) expect_misuse("expects 20 elements of type 7 by ncclBroadcast number 0 from 0");
}

TEST_F(NcclDouble, nothing_may_be_called_while_the_communicator_is_in_progress) {
  faults().init_never_ends = true;
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclCommInitRankConfig(&comm_, world().size(), shared_id(), world().rank(), &config), ncclInProgress);
  world().barrier({"all have begun", "", ""});
  EXPECT_EQ(send(), ncclInvalidUsage);
  expect_misuse("ncclSend: the communicator is in progress");
  EXPECT_EQ(ncclCommFinalize(comm_), ncclInvalidUsage);
  expect_misuse("ncclCommFinalize: the communicator is in progress");
}

TEST_F(NcclDouble, work_behind_a_group_that_is_still_being_launched_is_refused) {
  open();
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  bool found = false;
  for (int i = 0; i < 100 && !found; ++i) {  // three of four groups are launched later
    ncclGroupStart();
    send();
    receive();
    if (ncclGroupEnd() == ncclInProgress) {
      found = true;
      EXPECT_EQ(cudaEventRecord(event, stream_), cudaErrorInvalidValue);
      expect_misuse("cudaEventRecord: the group before it is still in progress");
    }
    EXPECT_EQ(settle(), ncclSuccess);
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

TEST_F(NcclDouble, a_communicator_made_in_a_group_is_refused) {
  ncclConfig_t config = non_blocking();
  const ncclUniqueId id = shared_id();
  EXPECT_EQ(ncclGroupStart(), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankConfig(&comm_, world().size(), id, world().rank(), &config), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  expect_misuse("ncclCommInitRankConfig in a group");
}

TEST_F(NcclDouble, ranks_configurations_and_pointers_are_checked) {
  const ncclUniqueId id = shared_id();
  ncclConfig_t config = non_blocking();
  EXPECT_EQ(ncclCommInitRankConfig(&comm_, 2, id, 2, &config), ncclInvalidArgument);
  expect_misuse("rank 2 of 2");
  ncclConfig_t zeros{};
  EXPECT_EQ(ncclCommInitRankConfig(&comm_, 1, id, 0, &zeros), ncclInvalidArgument);
  expect_misuse("NCCL_CONFIG_INITIALIZER");
  EXPECT_EQ(ncclCommInitRankConfig(&comm_, 1, ncclUniqueId{}, 0, &config), ncclInvalidArgument);
  expect_misuse("no job of this unique id");
  comm_ = nullptr;
  open();
  EXPECT_EQ(ncclSend(mine_.data(), 1, ncclFloat32, world().size(), comm_, stream_), ncclInvalidArgument);
  expect_misuse("ncclSend: rank");
  EXPECT_EQ(ncclBroadcast(mine_.data(), theirs_.data(), 1, ncclFloat32, -1, comm_, stream_), ncclInvalidArgument);
  expect_misuse("ncclBroadcast: rank -1");
  EXPECT_EQ(ncclSend(nullptr, 1, ncclFloat32, next_, comm_, stream_), ncclInvalidArgument);
  expect_misuse("ncclSend: a null pointer");
}

TEST_F(NcclDouble, a_rank_that_is_there_twice_is_refused) {
  const ncclUniqueId id = shared_id();
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclCommInitRankConfig(&comm_, world().size(), id, world().rank(), &config), ncclInProgress);
  ncclComm_t second = nullptr;
  EXPECT_EQ(ncclCommInitRankConfig(&second, world().size(), id, world().rank(), &config), ncclInvalidUsage);
  expect_misuse("is there already");
}

TEST_F(NcclDouble, two_ranks_on_one_device_are_refused) {
  if (world().size() == 1) return;
  faults().one_device = true;
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclCommInitRankConfig(&comm_, world().size(), shared_id(), world().rank(), &config), ncclInProgress);
  EXPECT_EQ(settle(), ncclInvalidUsage);
  expect_misuse("two ranks of a communicator on one device");
}

TEST_F(NcclDouble, nothing_comes_after_finalize_but_destroy) {
  open();
  EXPECT_EQ(ncclCommFinalize(comm_), ncclInProgress);
  EXPECT_EQ(settle(), ncclSuccess);
  EXPECT_EQ(send(), ncclInvalidUsage);
  expect_misuse("ncclSend after ncclCommFinalize");
  EXPECT_EQ(ncclCommFinalize(comm_), ncclInvalidUsage);
  expect_misuse("ncclCommFinalize for the second time");
  EXPECT_EQ(ncclCommDestroy(comm_), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comm_), ncclInvalidArgument);
  expect_misuse("ncclCommDestroy: no such communicator");
  comm_ = nullptr;
}

TEST_F(NcclDouble, a_communicator_is_finalized_before_it_is_destroyed) {
  open();
  EXPECT_EQ(ncclCommDestroy(comm_), ncclInvalidUsage);
  expect_misuse("ncclCommDestroy without ncclCommFinalize");
  comm_ = nullptr;
}

TEST_F(NcclDouble, a_communicator_is_not_destroyed_before_finalize_has_ended) {
  open();
  EXPECT_EQ(ncclCommFinalize(comm_), ncclInProgress);
  EXPECT_EQ(ncclCommDestroy(comm_), ncclInvalidUsage);
  expect_misuse("ncclCommDestroy before ncclCommFinalize has ended");
  comm_ = nullptr;
}

TEST_F(NcclDouble, an_abort_is_an_error_of_the_others) {
  if (world().size() == 1) return;
  open();
  if (world().rank() == 0) {
    EXPECT_EQ(ncclCommAbort(comm_), ncclSuccess);
    comm_ = nullptr;
  }
  world().barrier({"rank 0 has aborted", "", ""});
  if (world().rank() != 0) {
    EXPECT_EQ(settle(), ncclRemoteError);
    EXPECT_EQ(send(), ncclRemoteError);
  }
}

void CUDART_CB calls_cuda(void* data) {
  cudaEventRecord(static_cast<cudaEvent_t>(data), nullptr);
}

TEST_F(NcclDouble, a_host_function_may_not_call_cuda) {
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  ASSERT_EQ(cudaLaunchHostFunc(stream_, calls_cuda, event), cudaSuccess);
  while (cudaStreamQuery(stream_) != cudaSuccess)
    std::this_thread::yield();
  expect_misuse("cudaEventRecord in a host function");
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
}

void CUDART_CB append(void* data) {
  auto& [list, number] = *static_cast<std::pair<std::vector<int>*, int>*>(data);
  list->push_back(number);
}

// Within a stream in order; of two streams neither always comes first; an event puts one behind the other.
TEST_F(NcclDouble, streams_keep_their_order_and_interleave_at_random) {
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  cudaEvent_t event = nullptr;
  ASSERT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
  bool first_was_first = false;
  bool second_was_first = false;
  for (int turn = 0; turn < 200; ++turn) {
    const bool ordered = turn % 2 == 0;
    std::vector<int> list;
    std::array<std::pair<std::vector<int>*, int>, 3> calls{{{&list, 0}, {&list, 1}, {&list, 2}}};
    cudaLaunchHostFunc(stream_, append, &calls[0]);
    cudaLaunchHostFunc(stream_, append, &calls[1]);
    cudaEventRecord(event, stream_);
    if (ordered) cudaStreamWaitEvent(other, event, 0);
    cudaLaunchHostFunc(other, append, &calls[2]);
    EXPECT_TRUE(list.empty());
    while (cudaStreamQuery(stream_) != cudaSuccess || cudaStreamQuery(other) != cudaSuccess)
      std::this_thread::yield();
    ASSERT_EQ(list.size(), 3U);
    if (ordered) {
      EXPECT_EQ(list, (std::vector<int>{0, 1, 2}));
    }
    first_was_first = first_was_first || (!ordered && list.front() == 0);
    second_was_first = second_was_first || (!ordered && list.front() == 2);
    EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  }
  EXPECT_TRUE(first_was_first && second_was_first);
  EXPECT_EQ(cudaEventDestroy(event), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(other), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaEventRecord(nullptr, stream_), cudaErrorInvalidResourceHandle);
}

TEST_F(NcclDouble, one_stream_and_one_communicator_of_a_group_are_modelled) {
  open();
  send(0);
  settle();
  cudaStream_t other = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(ncclSend(mine_.data(), 1, ncclFloat32, next_, comm_, other), ncclInvalidUsage);
  expect_misuse("one stream for each communicator is modelled");
  EXPECT_EQ(cudaStreamDestroy(other), cudaSuccess);
  EXPECT_EQ(cudaStreamCreateWithFlags(&other, cudaStreamDefault), cudaErrorInvalidValue);
  expect_misuse("only cudaStreamNonBlocking is modelled");
}

}  // namespace
}  // namespace matrixfsdp

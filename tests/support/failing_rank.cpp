#include <csignal>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <Kokkos_Core.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/error.hpp>

/// A program that ends in the way that its first argument names, in the middle of an operation. Driven by
/// tests/mpi/comm_endings.sh.
namespace {

using namespace matrixfsdp;

Unshard direct(Communicator& world, const SegmentTable& table) {
  return prepare_unshard(CollectiveAlgorithm::direct, table, make_topology(world.size(), world.size()), world.rank());
}

/// A few steps of the kind that training does.
void work(Communicator& world, int steps) {
  const std::int64_t size = 3 * exchange_block * world.size() + 5;
  const SegmentTable table = even_table(size, world.size());
  const std::int64_t chunk = table.shard_size(world.rank());
  const Tensor<float> buffer = make_zeros<float>("buffer", size);
  const Tensor<float> sums = make_zeros<float>("sums", chunk);
  const Reduce scatter = prepare_reduce(CollectiveAlgorithm::scatter, table);
  const Tensor<float> others = make_zeros<float>("others", running_sum_elements(scatter, world.rank()));
  for (int step = 0; step < steps; ++step) {
    gather(world, Purpose::unshard, direct(world, table), sums, buffer, {"unshard", "block.0", "forward"}).wait();
    reduce(world, scatter, {}, buffer, others, sums, {"reduce", "block.0", "backward"}).wait();
    all_gather_value(world, Purpose::clip, 1.0, {"norm exchange", "", "step"});
  }
}

/// What the messages of way "pending" are read from and written to: it has to live until MPI ends.
struct Storage {
  std::vector<float> shard;
  std::vector<float> buffer;
};

TensorView<float> view_of(std::vector<float>& values, std::int64_t size) {
  values.resize(static_cast<std::size_t>(size));
  return TensorView<float>(values.data(), values.size());
}

int end_as_told(const std::string& way, Storage& storage, int argc, char** argv) {
  SessionOptions options;
  options.deadline = std::chrono::seconds(2);
  Session session = Session::start(argc, argv, options);
  Communicator& world = session.world();
  work(world, 3);
  const bool last = world.rank() == world.size() - 1;
  if (way == "throw" && last) throw std::runtime_error("the loss has no bits");
  if (way == "unknown" && last) throw 1;
  if (way == "stop" && last) std::raise(SIGSTOP);
  if (way == "kill" && last) std::raise(SIGKILL);
  if (way == "leave" && last) return exit_ok;
  if (way == "input") agree_on_input(world, world.rank() == 0 ? "" : fmt::format("no such file: {}", world.rank()));
  if (way == "alone" && last) throw InputError("only here");
  if (way == "pending") {
    const SegmentTable table = even_table(100000, world.size());
    const TensorView<float> shard = view_of(storage.shard, table.shard_size(world.rank()));
    const TensorView<float> buffer = view_of(storage.buffer, table.size);
    const Request request =
        gather(world, Purpose::unshard, direct(world, table), shard, buffer, {"unshard", "block.1", "forward"});
    throw InputError("while a prefetch is under way");
  }
  if (way == "different") return world.rank() == 0 ? exit_different : exit_ok;
  work(world, 3);
  if (way == "bytes") {
    std::ofstream(fmt::format("{}.{}", argv[2], world.rank())) << world.rank() << ' ' << world.bytes().total() << '\n';
  }
  if (world.rank() == 0) fmt::print("{}\n", session.description());
  return exit_ok;
}

/// MPI and Kokkos are this program's: the session leaves both alive.
int adopt(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  Kokkos::initialize(argc, argv);
  {
    Session session = Session::adopt(MPI_COMM_WORLD);
    work(session.world(), 2);
  }
  int rank = 0;
  int finalized = 0;
  int ranks = 0;
  const int one = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Finalized(&finalized);
  MPI_Allreduce(&one, &ranks, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (finalized != 0 || !Kokkos::is_initialized()) return exit_error;
  if (rank == 0) fmt::print("{} ranks are alive\n", ranks);
  Kokkos::finalize();
  MPI_Finalize();
  return exit_ok;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string way = argc > 1 ? argv[1] : "";
  Storage storage;
  return matrixfsdp::run_main(
      [&] { return way == "adopt" ? adopt(argc, argv) : end_as_told(way, storage, argc, argv); });
}

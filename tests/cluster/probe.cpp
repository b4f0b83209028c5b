#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/redistribute.hpp>
#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/error.hpp>

/// Is the emulated cluster what it says? cluster_probe <nodes> <ranks on each> <bits per second, 0: no limit>
/// <microseconds>
namespace {

using namespace matrixfsdp;
using Clock = std::chrono::steady_clock;

constexpr std::size_t part_size = std::size_t{4} << 20;  ///< bytes from each rank
constexpr std::int64_t noise = 1 << 18;  ///< bytes of barriers and of the launcher that may pass in the meantime
constexpr double burst = 1 << 17;        ///< bytes that a link lets through at once after a silence, and more

void require(bool holds, const std::string& message) {
  if (!holds) throw std::runtime_error(message);
}

/// Bytes that this node has sent on all its networks, the loopback device's too.
std::int64_t bytes_sent_by_node() {
  std::int64_t sum = 0;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/net")) {
    std::int64_t bytes = 0;
    require(bool(std::ifstream(device.path() / "statistics/tx_bytes") >> bytes), device.path().string() + ": no count");
    sum += bytes;
  }
  return sum;
}

struct Exchange {
  std::int64_t node_bytes = 0;  ///< left this node meanwhile
  double seconds = 0;
};

/// All ranks of `group` tell each other part_size bytes, rank by rank different ones.
Exchange exchange(Communicator& world, Communicator& group, const std::string& what) {
  const std::vector<std::byte> mine(part_size, std::byte(world.rank() + 1));
  const std::int64_t before = bytes_sent_by_node();
  // The clock runs from before one barrier to after the next, so that all bytes move meanwhile, whichever rank is late.
  const auto start = Clock::now();
  world.barrier({what, "", "before"});
  const auto parts = group.all_gather(Purpose::other, mine, {what, "", ""});
  world.barrier({what, "", "after"});
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const std::int64_t node_bytes = bytes_sent_by_node() - before;
  const auto ranks = all_gather_value(group, Purpose::other, world.rank(), {what, "", "check"});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    require(parts[i] == std::vector<std::byte>(part_size, std::byte(ranks[i] + 1)),
            fmt::format("{}: the part of rank {} is wrong", what, ranks[i]));
  }
  return {node_bytes, seconds};
}

/// All ranks of `group` send to one of them at once: its link, not theirs, is what holds them back.
void crowd(Communicator& group, int root) {
  const OperationLabel label{"crowd", "", ""};
  const auto elements = static_cast<std::int64_t>(part_size / sizeof(float));
  const Tensor<float> mine = make_zeros<float>("mine", elements);
  const Tensor<float> theirs = make_zeros<float>("theirs", elements * group.size());
  std::vector<PeerElements<const float>> sends;
  std::vector<PeerElements<float>> receives;
  if (group.rank() != root) sends.push_back({root, mine});
  for (int peer = 0; group.rank() == root && peer < group.size(); ++peer) {
    if (peer == root) continue;
    const auto begin = static_cast<std::size_t>(peer * elements);
    receives.push_back({peer, Kokkos::subview(theirs, std::pair(begin, begin + static_cast<std::size_t>(elements)))});
  }
  redistribute(group, Purpose::other, sends, receives, label).wait();
}

struct Expected {
  int nodes;
  int ranks;
  double bits_per_second;
  double microseconds;
};

void check_layout(const Session& session, int size, int rank, const Expected& expected) {
  require(size == expected.nodes * expected.ranks && session.nodes() == expected.nodes &&
              session.local_size() == expected.ranks,
          fmt::format("{} ranks on {} nodes, {} here: expected {} nodes of {}", size, session.nodes(),
                      session.local_size(), expected.nodes, expected.ranks));
  std::string name(64, '\0');
  gethostname(name.data(), name.size() - 1);
  name.resize(name.find('\0'));
  require(name == fmt::format("node{}", rank / expected.ranks), "host name " + name + ": expected node<rank / ranks>");
}

/// The least time, of many, of a message to the next node and back, in seconds.
double round_trip(Communicator& group) {
  double least = 1;
  for (int i = 0; i < 100; ++i) {
    const auto start = Clock::now();
    group.broadcast(Purpose::other, {}, 0, {"there", "", ""});
    group.broadcast(Purpose::other, {}, 1, {"and back", "", ""});
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

int probe(const Expected& expected, int argc, char** argv) {
  Session session = Session::start(argc, argv);
  Communicator& world = session.world();
  check_layout(session, world.size(), world.rank(), expected);

  Communicator inside = mpi::split(MPI_COMM_WORLD, world.rank() / expected.ranks, 0);
  const Exchange near = exchange(world, inside, "exchange inside the nodes");
  require(near.node_bytes < noise, fmt::format("{} bytes on the network for ranks of one node", near.node_bytes));

  Communicator across = mpi::split(MPI_COMM_WORLD, world.rank() % expected.ranks, 0);
  const Exchange far = exchange(world, across, "exchange between the nodes");
  const double bytes = static_cast<double>(part_size) * (expected.nodes - 1) * expected.ranks;
  require(static_cast<double>(far.node_bytes) >= bytes,
          fmt::format("{} bytes have left this node: expected at least {:.0f}", far.node_bytes, bytes));
  // Only too fast is wrong: a busy machine may be slow.
  const double least = expected.bits_per_second > 0 ? (bytes - burst) * 8 / expected.bits_per_second : 0;
  require(far.seconds >= least, fmt::format("{} s for {:.0f} bytes: expected {} s or more", far.seconds, bytes, least));
  for (int root = 0; root < across.size(); ++root)
    crowd(across, root);
  const double trip = round_trip(across);
  // Rank 0 of a group waits for the answer of rank 1.
  require(across.rank() != 0 || trip * 1e6 >= 2 * expected.microseconds,
          fmt::format("{} s there and back: expected twice {} us or more", trip, expected.microseconds));
  if (world.rank() == 0) {
    fmt::print("{}\ninside: {:.1f} MB/s; between nodes: {:.2f} MB/s, {} bytes sent; there and back {:.0f} us\n",
               session.description(), part_size * (expected.ranks - 1) / near.seconds * 1e-6,
               bytes / far.seconds * 1e-6, far.node_bytes, trip * 1e6);
  }
  return exit_ok;
}

}  // namespace

int main(int argc, char** argv) {
  return matrixfsdp::run_main([&] {
    if (argc != 5) throw matrixfsdp::InputError("expected <nodes> <ranks> <bits per second> <microseconds>");
    return probe({std::stoi(argv[1]), std::stoi(argv[2]), std::stod(argv[3]), std::stod(argv[4])}, argc, argv);
  });
}

#include "apps/bench/collectives.hpp"

#include <chrono>
#include <functional>
#include <limits>
#include <memory>

#include <fmt/format.h>
#include <mpi.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/core/error.hpp>

#include "apps/bench/benchmark.hpp"

namespace matrixfsdp::bench {
namespace {

const OperationLabel label{"unshard", "bench", ""};

/// "even": every rank owns the same. "seven": seven matrices, one a third of all, dealt to ranks in turn, as a
/// transformer block's. "one": rank 0 owns all.
SegmentTable table_of(const std::string& name, std::int64_t size, int world_size) {
  if (name == "even") return even_table(size, world_size);
  std::vector<std::int64_t> owned(static_cast<std::size_t>(world_size), 0);
  if (name == "one") {
    owned[0] = size;
  } else if (name == "seven") {
    std::int64_t left = size;
    for (std::int64_t matrix = 0; matrix < 7; ++matrix) {
      const std::int64_t elements = matrix == 0 ? size / 3 : left / (7 - matrix);
      owned[static_cast<std::size_t>(matrix % world_size)] += elements;
      left -= elements;
    }
  } else {
    throw InputError(fmt::format("table '{}': expected even, seven or one", name));
  }
  SegmentTable table;
  table.size = size;
  std::int64_t position = 0;
  for (const std::int64_t elements : owned) {
    table.intervals.push_back({Interval{position, position + elements}, Interval{}});
    position += elements;
  }
  return table;
}

float value_at(std::int64_t element) {
  return static_cast<float>((element * 2654435761) & 0xFFFFFF);
}

/// MPI_Iallgather, as a request of ours: tested, and waited for, in the same way.
class LibraryAllgather final : public Request::Operation {
 public:
  LibraryAllgather(const float* shard, float* buffer, int count) {
    MPI_Iallgather(shard, count, MPI_FLOAT, buffer, count, MPI_FLOAT, MPI_COMM_WORLD, &request_);
  }
  bool advance() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }
  void abandon(std::shared_ptr<Operation> /*self*/) noexcept override {}

 private:
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// One way to unshard one table, and what was measured of it.
struct Contender {
  std::string algorithm;
  std::string table_name;
  SegmentTable table;
  std::function<Request(const Tensor<float>& shard, const Tensor<float>& buffer)> start;
  std::int64_t rank_bytes = 0;  ///< max(sent, received) of this rank
  std::vector<double> seconds;
  std::int64_t wrong = 0;
};

Tensor<float> shard_of(const SegmentTable& table, int rank) {
  Tensor<float> shard = make_tensor<float>("shard", table.shard_size(rank));
  std::int64_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(rank)]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i)
      shard(static_cast<std::size_t>(done++)) = value_at(i);
  }
  return shard;
}

void measure(Communicator& world, Contender& contender) {
  using Clock = std::chrono::steady_clock;
  const Tensor<float> shard = shard_of(contender.table, world.rank());
  const Tensor<float> buffer = make_tensor<float>("buffer", contender.table.size);
  Kokkos::deep_copy(buffer, std::numeric_limits<float>::quiet_NaN());
  world.barrier(label);
  const auto begin = Clock::now();
  contender.start(shard, buffer).wait();
  const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < contender.table.size; ++i)
    wrong += buffer(static_cast<std::size_t>(i)) == value_at(i) ? 0 : 1;
  double slowest = 0;
  for (const double seconds : all_gather_value(world, Purpose::other, mine, label))
    slowest = std::max(slowest, seconds);
  for (const std::int64_t count : all_gather_value(world, Purpose::other, wrong, label))
    contender.wrong += count;
  contender.seconds.push_back(slowest);
}

Contender library_reference(Communicator& world, std::int64_t size) {
  const int count = static_cast<int>(size / world.size());
  Contender contender;
  contender.algorithm = "MPI_Iallgather";
  contender.table_name = "even";
  contender.table = even_table(std::int64_t{count} * world.size(), world.size());
  contender.start = [count, &world](const Tensor<float>& shard, const Tensor<float>& buffer) {
    return Request(std::make_shared<LibraryAllgather>(shard.data(), buffer.data(), count), label, world.rank(), 0,
                   world.deadline());
  };
  contender.rank_bytes = std::int64_t{4} * count * (world.size() - 1);
  return contender;
}

Contender ours(Communicator& world, const Topology& topology, const std::string& algorithm, const std::string& table,
               std::int64_t size, std::int64_t block_bytes) {
  Contender contender;
  contender.algorithm = algorithm;
  contender.table_name = table;
  contender.table = table_of(table, size, world.size());
  const auto unshard = std::make_shared<Unshard>(
      prepare_unshard(parse_collective(algorithm), contender.table, topology, world.rank(), block_bytes / 4));
  contender.start = [unshard, &world](const Tensor<float>& shard, const Tensor<float>& buffer) {
    return gather(world, Purpose::unshard, *unshard, shard, buffer, label);
  };
  const TransferCounts counts = counts_of(unshard->schedule, topology, world.rank());
  const std::int64_t own = contender.table.shard_size(world.rank());
  contender.rank_bytes = unshard->algorithm == CollectiveAlgorithm::allgatherv
                             ? 4 * std::max(own * (world.size() - 1), contender.table.size - own)
                             : 4 * std::max(counts.sent, counts.received);
  return contender;
}

nlohmann::json row_of(Communicator& world, const Contender& contender, double reference) {
  const Spread seconds = spread_of(contender.seconds);
  const double bytes = 4.0 * static_cast<double>(contender.table.size);
  std::int64_t most = 0;
  for (const std::int64_t rank_bytes : all_gather_value(world, Purpose::other, contender.rank_bytes, label))
    most = std::max(most, rank_bytes);
  return {{"operation", "unshard"},
          {"algorithm", contender.algorithm},
          {"table", contender.table_name},
          {"bytes", 4 * contender.table.size},
          {"seconds", to_json(seconds)},
          {"algbw", bytes / seconds.median * 1e-9},
          {"busbw", bytes / seconds.median * 1e-9 * (world.size() - 1) / world.size()},
          {"max_rank_bytes", most},
          {"wrong", contender.wrong},
          {"ratio", seconds.median / reference}};
}

}  // namespace

int collectives(Session& session, const CollectivesOptions& options) {
  Communicator& world = session.world();
  const Topology topology = mpi::topology_of(world);
  nlohmann::json rows = nlohmann::json::array();
  std::int64_t wrong = 0;
  for (const std::int64_t bytes : options.bytes) {
    std::vector<Contender> contenders{library_reference(world, bytes / 4)};
    for (const std::string& table : options.tables) {
      for (const std::string& algorithm : options.algorithms)
        contenders.push_back(ours(world, topology, algorithm, table, bytes / 4, options.block_bytes));
    }
    for (std::int64_t round = 0; round <= options.rounds; ++round) {
      for (Contender& contender : contenders) {
        measure(world, contender);
        if (round == 0) contender.seconds.clear();  // connections are made, pages are touched
      }
    }
    const double reference = spread_of(contenders.front().seconds).median;
    for (const Contender& contender : contenders) {
      rows.push_back(row_of(world, contender, reference));
      wrong += contender.wrong;
    }
  }
  print("collectives", session, rows,
        {"operation", "algorithm", "table", "bytes", "seconds", "algbw", "busbw", "max_rank_bytes", "wrong", "ratio"},
        options.json);
  return wrong == 0 ? exit_ok : exit_different;
}

}  // namespace matrixfsdp::bench

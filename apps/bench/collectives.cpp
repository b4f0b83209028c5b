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

const OperationLabel label{"collective", "bench", ""};

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

/// Small whole numbers, so that their sums over ranks are exact in any order.
float value_at(std::int64_t element) {
  return static_cast<float>((element * 2654435761) & 0xFFF);
}

/// A non-blocking collective of the MPI library, as a request of ours: tested, and waited for, in the same way.
class LibraryCall final : public Request::Operation {
 public:
  explicit LibraryCall(MPI_Request request) : request_(request) {}
  bool advance() override {
    int done = 0;
    MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    return done != 0;
  }
  [[nodiscard]] bool complete() const override { return request_ == MPI_REQUEST_NULL; }
  [[nodiscard]] double seconds() const override { return 0; }  // not asked for
  void abandon(std::shared_ptr<Operation> /*self*/) noexcept override {}

 private:
  MPI_Request request_;
};

Request library_request(const Communicator& world, MPI_Request request) {
  return {std::make_shared<LibraryCall>(request), label, world.rank(), 0, world.deadline()};
}

/// One way to move one table, and what was measured of it.
struct Contender {
  std::string operation;  ///< "unshard": from shards to the buffer; "reduce": from buffers to shards
  std::string algorithm;
  std::string table_name;
  SegmentTable table;
  std::function<Request(const Tensor<float>& input, const Tensor<float>& output)> start;
  std::int64_t rank_bytes = 0;  ///< max(sent, received) of this rank
  std::vector<double> seconds;
  std::int64_t wrong = 0;
};

/// `factor` value_at(element) of what a rank holds.
Tensor<float> shard_of(const SegmentTable& table, int rank, float factor) {
  Tensor<float> shard = make_tensor<float>("shard", table.shard_size(rank));
  std::int64_t done = 0;
  for (const Interval& interval : table.intervals[static_cast<std::size_t>(rank)]) {
    for (std::int64_t i = interval.begin; i < interval.end; ++i)
      shard(static_cast<std::size_t>(done++)) = factor * value_at(i);
  }
  return shard;
}

std::int64_t differences(const Tensor<float>& found, const Tensor<float>& expected) {
  std::int64_t count = 0;
  for (std::size_t i = 0; i < found.size(); ++i)
    count += found(i) == expected(i) ? 0 : 1;
  return count;
}

void measure(Communicator& world, Contender& contender) {
  using Clock = std::chrono::steady_clock;
  const bool unshards = contender.operation == "unshard";
  const Tensor<float> whole = shard_of(even_table(contender.table.size, 1), 0, 1.0F);
  const auto ranks = static_cast<float>(world.size());
  const Tensor<float> shard = shard_of(contender.table, world.rank(), unshards ? 1.0F : ranks);
  const Tensor<float>& expected = unshards ? whole : shard;
  const Tensor<float> output = make_tensor<float>("output", static_cast<std::int64_t>(expected.size()));
  Kokkos::deep_copy(output, std::numeric_limits<float>::quiet_NaN());
  world.barrier(label);
  const auto begin = Clock::now();
  contender.start(unshards ? shard : whole, output).wait();
  const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
  double slowest = 0;
  for (const double seconds : all_gather_value(world, Purpose::other, mine, label))
    slowest = std::max(slowest, seconds);
  for (const std::int64_t count : all_gather_value(world, Purpose::other, differences(output, expected), label))
    contender.wrong += count;
  contender.seconds.push_back(slowest);
}

/// The even split by the MPI library: MPI_Iallgather, or MPI_Ireduce_scatter_block.
Contender library_reference(Communicator& world, const std::string& operation, std::int64_t size) {
  const int count = static_cast<int>(size / world.size());
  const bool unshards = operation == "unshard";
  Contender contender;
  contender.operation = operation;
  contender.algorithm = unshards ? "MPI_Iallgather" : "MPI_Ireduce_scatter_block";
  contender.table_name = "even";
  contender.table = even_table(std::int64_t{count} * world.size(), world.size());
  contender.start = [count, unshards, &world](const Tensor<float>& input, const Tensor<float>& output) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (unshards)
      MPI_Iallgather(input.data(), count, MPI_FLOAT, output.data(), count, MPI_FLOAT, MPI_COMM_WORLD, &request);
    else
      MPI_Ireduce_scatter_block(input.data(), output.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
    return library_request(world, request);
  };
  contender.rank_bytes = std::int64_t{4} * count * (world.size() - 1);
  return contender;
}

Contender our_unshard(Communicator& world, const Topology& topology, CollectiveAlgorithm algorithm,
                      const SegmentTable& table, std::int64_t block_bytes) {
  Contender contender;
  contender.operation = "unshard";
  const auto unshard =
      std::make_shared<Unshard>(prepare_unshard(algorithm, table, topology, world.rank(), block_bytes / 4));
  contender.start = [unshard, &world](const Tensor<float>& input, const Tensor<float>& output) {
    return gather(world, Purpose::unshard, *unshard, input, output, label);
  };
  const TransferCounts counts = counts_of(unshard->schedule, topology, world.rank());
  const std::int64_t own = table.shard_size(world.rank());
  contender.rank_bytes = algorithm == CollectiveAlgorithm::allgatherv
                             ? 4 * std::max(own * (world.size() - 1), table.size - own)
                             : 4 * std::max(counts.sent, counts.received);
  return contender;
}

Contender our_reduce(Communicator& world, CollectiveAlgorithm algorithm, const SegmentTable& table) {
  Contender contender;
  contender.operation = "reduce";
  const auto prepared = std::make_shared<Reduce>(prepare_reduce(algorithm, table));
  const int rank = world.rank();
  const Tensor<float> sums = make_tensor<float>("sums", running_sum_elements(*prepared, rank));
  contender.start = [prepared, sums, &world](const Tensor<float>& input, const Tensor<float>& output) {
    return reduce(world, *prepared, {}, input, sums, output, label);
  };
  std::int64_t sent = 0;
  std::int64_t received = 0;
  for (const auto& blocks : prepared->blocks) {
    for (const Piece& block : blocks) {
      const std::int64_t size = block.elements.size();
      const bool on = block.owner != block.holder;  // the sum goes on to the owner
      sent += block.holder == rank ? (on ? size : 0) : size;
      received += (block.holder == rank ? size * (world.size() - 1) : 0) + (on && block.owner == rank ? size : 0);
    }
  }
  contender.rank_bytes = 4 * std::max(sent, received);
  return contender;
}

std::vector<Contender> contenders_of(Communicator& world, const CollectivesOptions& options, std::int64_t size) {
  const Topology topology = mpi::topology_of(world);
  std::vector<Contender> contenders;
  for (const std::string& operation : options.operations) {
    contenders.push_back(library_reference(world, operation, size));
    for (const std::string& name : options.tables) {
      const SegmentTable table = table_of(name, size, world.size());
      for (const std::string& text : options.algorithms) {
        const CollectiveAlgorithm algorithm = parse_collective(text);
        const bool reduces = algorithm == CollectiveAlgorithm::direct || algorithm == CollectiveAlgorithm::scatter;
        if (operation == "reduce" && !reduces) continue;
        contenders.push_back(operation == "reduce"
                                 ? our_reduce(world, algorithm, table)
                                 : our_unshard(world, topology, algorithm, table, options.block_bytes));
        contenders.back().algorithm = text;
        contenders.back().table_name = name;
        contenders.back().table = table;
      }
    }
  }
  return contenders;
}

nlohmann::json row_of(Communicator& world, const Contender& contender, double reference) {
  const Spread seconds = spread_of(contender.seconds);
  const double bytes = 4.0 * static_cast<double>(contender.table.size);
  std::int64_t most = 0;
  for (const std::int64_t rank_bytes : all_gather_value(world, Purpose::other, contender.rank_bytes, label))
    most = std::max(most, rank_bytes);
  return {{"operation", contender.operation},
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
  nlohmann::json rows = nlohmann::json::array();
  std::int64_t wrong = 0;
  for (const std::int64_t bytes : options.bytes) {
    std::vector<Contender> contenders = contenders_of(world, options, bytes / 4);
    for (std::int64_t round = 0; round <= options.rounds; ++round) {
      for (Contender& contender : contenders) {
        measure(world, contender);
        if (round == 0) contender.seconds.clear();  // connections are made, pages are touched
      }
    }
    double reference = 0;
    for (const Contender& contender : contenders) {
      if (contender.algorithm.rfind("MPI_", 0) == 0) reference = spread_of(contender.seconds).median;
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

#include "apps/bench/collectives.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <mpi.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/segments.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>
#include <matrixfsdp/plan/collective_model.hpp>

#include "apps/bench/benchmark.hpp"
#include "apps/train/collective_profile.hpp"

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
  bool by_nccl = false;
  std::int64_t rank_bytes = 0;       ///< max(sent, received) of this rank
  std::string choice;                ///< of auto
  std::optional<double> predicted;   ///< seconds; not of the MPI library's own algorithms
  std::shared_ptr<Unshard> unshard;  ///< one of ours has one of these two
  std::shared_ptr<Reduce> reduce;
  std::size_t runner = 0;  ///< index of the one that runs for it
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
  std::this_thread::sleep_for(std::chrono::milliseconds(5));  // links and queues are empty, whatever ran before
  world.barrier(label);
  const auto begin = Clock::now();
  contender.start(unshards ? shard : whole, output).wait();
  const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
  const double seconds = slowest(world, mine);
  for (const std::int64_t count : all_gather_value(world, Purpose::other, differences(output, expected), label))
    contender.wrong += count;
  contender.seconds.push_back(seconds);
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

/// What all contenders of a run have in common.
struct Job {
  Communicator& world;
  const CollectivesOptions& options;
  Topology topology;
  CollectiveProfile profile;
  Communicator* nccl = nullptr;  ///< over all ranks, whose segments NCCL carries; null: none

  [[nodiscard]] std::optional<std::int64_t> block() const {
    return options.block_bytes ? std::optional(*options.block_bytes / 4) : std::nullopt;
  }
};

Contender our_unshard(const Job& job, Communicator& world, CollectiveAlgorithm algorithm, const SegmentTable& table) {
  Contender contender;
  contender.by_nccl = &world == job.nccl;
  const auto unshard =
      std::make_shared<Unshard>(prepare_unshard(algorithm, table, job.topology, world.rank(), job.block()));
  contender.unshard = unshard;
  contender.start = [unshard, &world](const Tensor<float>& input, const Tensor<float>& output) {
    return gather(world, Purpose::unshard, *unshard, input, output, label);
  };
  if (algorithm == CollectiveAlgorithm::allgatherv) {
    const std::int64_t own = table.shard_size(world.rank());
    contender.rank_bytes = 4 * std::max(own * (world.size() - 1), table.size - own);
    return contender;
  }
  const TransferCounts counts = counts_of(unshard->schedule, job.topology, world.rank());
  contender.rank_bytes = 4 * std::max(counts.sent, counts.received);
  if (!contender.by_nccl)
    contender.predicted = predicted_unshard_seconds(algorithm, table, job.topology, job.profile, job.block());
  return contender;
}

Contender our_reduce(const Job& job, Communicator& world, CollectiveAlgorithm algorithm, const SegmentTable& table) {
  Contender contender;
  contender.by_nccl = &world == job.nccl;
  const auto prepared = std::make_shared<Reduce>(prepare_reduce(algorithm, table, job.topology));
  contender.reduce = prepared;
  const int rank = world.rank();
  const Tensor<float> sums = make_tensor<float>("sums", running_sum_elements(*prepared, rank));
  contender.start = [prepared, sums, &world](const Tensor<float>& input, const Tensor<float>& output) {
    return reduce(world, *prepared, {}, input, sums, output, label);
  };
  const TransferCounts counts = reduce_counts(*prepared, job.topology)[static_cast<std::size_t>(rank)];
  contender.rank_bytes = 4 * std::max(counts.sent, counts.received);
  if (!contender.by_nccl) contender.predicted = predicted_reduce_seconds(*prepared, job.topology, job.profile);
  return contender;
}

Contender our_contender(const Job& job, const std::string& operation, const std::string& name,
                        const SegmentTable& table) {
  const bool reduces = operation == "reduce";
  std::string choice;
  if (name == "auto") {
    choice = name_of((reduces ? choose_reduce(table, job.topology, job.profile)
                              : choose_unshard(table, job.topology, job.profile, job.block()))
                         .algorithm);
  }
  if (name == "nccl") choice = reduces ? "scatter" : "direct";  // who sums; what NCCL is given to send
  Communicator& communicator = name == "nccl" ? *job.nccl : job.world;
  const CollectiveAlgorithm algorithm = parse_collective(choice.empty() ? name : choice);
  Contender contender =
      reduces ? our_reduce(job, communicator, algorithm, table) : our_unshard(job, communicator, algorithm, table);
  contender.operation = operation;
  contender.algorithm = name;
  if (name == "auto") contender.choice = choice;
  return contender;
}

bool exists(const std::string& operation, const std::string& algorithm) {
  return operation == "unshard" || (algorithm != "padded" && algorithm != "allgatherv");
}

std::vector<Contender> contenders_of(const Job& job, std::int64_t size) {
  std::vector<std::string> algorithms = job.options.algorithms;
  if (job.nccl != nullptr) algorithms.emplace_back("nccl");
  std::vector<Contender> contenders;
  for (const std::string& operation : job.options.operations) {
    contenders.push_back(library_reference(job.world, operation, size));
    for (const std::string& name : job.options.tables) {
      const SegmentTable table = table_of(name, size, job.world.size());
      for (const std::string& algorithm : algorithms) {
        if (!exists(operation, algorithm)) continue;
        contenders.push_back(our_contender(job, operation, algorithm, table));
        contenders.back().table_name = name;
        contenders.back().table = table;
      }
    }
  }
  return contenders;
}

/// Another one of ours for the same table.
bool competes(const Contender& a, const Contender& b) {
  return a.operation == b.operation && a.table_name == b.table_name && b.algorithm.rfind("MPI_", 0) != 0;
}

/// On this rank: the same messages in the same order.
bool same_work(const Contender& a, const Contender& b) {
  if (!competes(a, b) || !competes(b, a) || a.by_nccl != b.by_nccl) return false;
  if (a.unshard && b.unshard) return same_messages(*a.unshard, *b.unshard);
  return a.reduce && b.reduce && same_messages(*a.reduce, *b.reduce);
}

/// Contenders that do the same on all ranks (auto and what it chose; direct and scatter of an even table) run once: two
/// times of one thing would differ by noise.
void share_runs(Communicator& world, std::vector<Contender>& contenders) {
  const std::size_t count = contenders.size();
  std::vector<std::byte> same(count * count);
  for (std::size_t i = 0; i < count * count; ++i)
    same[i] = std::byte(same_work(contenders[i / count], contenders[i % count]) ? 1 : 0);
  for (const auto& theirs : world.all_gather(Purpose::other, same, label)) {
    for (std::size_t i = 0; i < same.size(); ++i)
      same[i] &= theirs[i];
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = same.begin() + static_cast<std::ptrdiff_t>(i * count);
    const auto first = std::find(row, row + static_cast<std::ptrdiff_t>(i), std::byte(1));
    contenders[i].runner = static_cast<std::size_t>(first - row);
  }
}

/// Rounds in which all take turns, forwards and backwards: what runs before leaves its traces in queues and caches.
void run_rounds(const Job& job, std::vector<Contender>& contenders) {
  for (std::int64_t round = 0; round <= job.options.rounds; ++round) {
    for (std::size_t turn = 0; turn < contenders.size(); ++turn) {
      const std::size_t index = round % 2 == 0 ? turn : contenders.size() - 1 - turn;
      Contender& contender = contenders[index];
      if (contender.runner != index) continue;
      measure(job.world, contender);
      if (round == 0) contender.seconds.clear();  // connections are made, pages are touched
    }
  }
  for (Contender& contender : contenders) {
    const Contender& runner = contenders[contender.runner];
    contender.seconds = runner.seconds;
    contender.wrong = runner.wrong;
  }
}

double fastest(const Contender& contender, const std::vector<Contender>& all) {
  double least = std::numeric_limits<double>::infinity();
  for (const Contender& other : all) {
    if (competes(contender, other)) least = std::min(least, spread_of(other.seconds).median);
  }
  return least;
}

nlohmann::json row_of(Communicator& world, const Contender& contender, double reference, double best) {
  const Spread seconds = spread_of(contender.seconds);
  const double bytes = 4.0 * static_cast<double>(contender.table.size);
  std::int64_t most = 0;
  for (const std::int64_t rank_bytes : all_gather_value(world, Purpose::other, contender.rank_bytes, label))
    most = std::max(most, rank_bytes);
  return {{"operation", contender.operation},
          {"algorithm", contender.algorithm},
          {"table", contender.table_name},
          {"bytes", 4 * contender.table.size},
          {"choice", contender.choice.empty() ? nlohmann::json() : nlohmann::json(contender.choice)},
          {"seconds", to_json(seconds)},
          {"predicted_seconds", contender.predicted ? nlohmann::json(*contender.predicted) : nlohmann::json()},
          {"algbw", bytes / seconds.median * 1e-9},
          {"busbw", bytes / seconds.median * 1e-9 * (world.size() - 1) / world.size()},
          {"max_rank_bytes", most},
          {"wrong", contender.wrong},
          {"ratio", seconds.median / reference},
          {"over_best", seconds.median / best}};
}

}  // namespace

int collectives(Session& session, const CollectivesOptions& options) {
  Communicator& world = session.world();
  mpi::set_gpu_aware(world, options.gpu_aware);
  Communicator carried = mpi::duplicate(world);
  const nccl::Attachment attachment = train::attach_backend(carried, options.backend);
  if (world.rank() == 0) log_line(attachment.description());
  Job job{world, options, mpi::topology_of(world), {}, attachment.active() ? &carried : nullptr};
  job.profile = train::collective_profile(world, job.topology, options.profile);
  if (world.rank() == 0) log_line("calibration: " + train::to_text(job.profile));
  nlohmann::json rows = nlohmann::json::array();
  std::int64_t wrong = 0;
  for (const std::int64_t bytes : options.bytes) {
    std::vector<Contender> contenders = contenders_of(job, bytes / 4);
    share_runs(world, contenders);
    run_rounds(job, contenders);
    double reference = 0;
    for (const Contender& contender : contenders) {
      const bool library = contender.algorithm.rfind("MPI_", 0) == 0;
      if (library) reference = spread_of(contender.seconds).median;
      rows.push_back(row_of(world, contender, reference, library ? reference : fastest(contender, contenders)));
      wrong += contender.wrong;
    }
  }
  print("collectives", session, rows,
        {"operation", "algorithm", "choice", "table", "bytes", "seconds", "predicted_seconds", "algbw", "busbw",
         "max_rank_bytes", "wrong", "ratio", "over_best"},
        options.json);
  return wrong == 0 ? exit_ok : exit_different;
}

Command add_collectives(CLI::App& app) {
  const auto options = std::make_shared<CollectivesOptions>();
  CLI::App* command = app.add_subcommand(
      "collectives",
      "Unshard and reduce of one unit by each algorithm (reduce: not padded and allgatherv). ratio: seconds over "
      "those of "
      "MPI_Iallgather, or MPI_Ireduce_scatter_block, of the even split in the same run; algbw and busbw: GB/s of the "
      "unit's bytes and of (W - 1) / W of them; max_rank_bytes: the most that one rank sends or receives; wrong: "
      "elements that did not arrive (exit code 1 if any); over_best: seconds over those of the fastest of the "
      "algorithms beside it. predicted_seconds: of the model that a calibration fills at the start; auto: what the "
      "model chooses (choice), with that algorithm's time in the same rounds.");
  command->add_option("--operation", options->operations)
      ->check(CLI::IsMember({"unshard", "reduce"}))
      ->capture_default_str();
  command->add_option("--bytes", options->bytes, "Of the unit; one or more")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--table", options->tables, "Who owns: even, seven (matrices, one a third), one")
      ->check(CLI::IsMember({"even", "seven", "one"}))
      ->capture_default_str();
  command->add_option("--algorithm", options->algorithms)->capture_default_str();
  command->add_option("--collective-profile", options->profile,
                      "File of the calibration: read if it exists, else written");
  command
      ->add_option("--block", options->block_bytes, "Bytes of a message of unshard, by default as the library has them")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::int64_t{4}, 4 * exchange_block));
  command->add_option("--rounds", options->rounds)->check(CLI::PositiveNumber)->capture_default_str();
  command->add_flag("--json", options->json);
  add_backend(*command, options->backend, options->gpu_aware);
  return make_command<CollectivesOptions>(command, options, &collectives);
}

}  // namespace matrixfsdp::bench

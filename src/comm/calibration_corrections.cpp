#include "comm/calibration_corrections.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <numeric>
#include <span>
#include <thread>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/segments.hpp>

namespace matrixfsdp::detail {
namespace {

using Clock = std::chrono::steady_clock;

const OperationLabel label{"calibration of algorithms", "", ""};

constexpr std::int64_t smallest_bytes = std::int64_t{64} << 10;
constexpr std::int64_t largest_bytes = std::int64_t{4} << 20;
constexpr std::int64_t size_step = 2;
/// Before each: links and queues are as empty as after compute, whatever ran before.
constexpr std::chrono::milliseconds idle{5};
/// Predicted of the best of an even unshard: no larger tables but the smallest.
constexpr double long_enough = 0.3;
/// Of all rounds of one contest.
constexpr double measured_seconds = 0.75;
constexpr int least_rounds = 4;
constexpr int most_rounds = 16;
/// Times the best, as predicted, after two rounds (one is often late) and after four: what is slower is not chosen, and
/// not measured any more. What is left alone has won, and is not measured any more either.
constexpr double hopeless = 3;
constexpr double beaten = 1.5;
constexpr double beaten_again = 1.2;

/// One algorithm on one table.
struct Trial {
  CollectiveCorrection correction;
  CollectiveAlgorithm runner{};  ///< that runs for it: itself, or one that sends the same messages
  double predicted = 0;
  Unshard unshard;
  Reduce reduce;
  Tensor<float> sums;
  bool runs = true;
  std::vector<double> seconds;  ///< of the slowest rank, of each round
  double measured = 0;          ///< typical of them
};

/// All algorithms for one operation on one table, of which one is chosen.
struct Contest {
  Tensor<float> shard;
  Tensor<float> buffer;
  std::vector<Trial> trials;
  int rounds = 0;
  double spent = 0;  ///< seconds of all rounds

  /// Those that take more than `factor` times the best.
  void leave_out(double Trial::*seconds, double factor) {
    double least = std::numeric_limits<double>::infinity();
    for (const Trial& trial : trials)
      least = trial.runs ? std::min(least, trial.*seconds) : least;
    for (Trial& trial : trials)
      trial.runs = trial.runs && trial.*seconds <= factor * least;
  }

  [[nodiscard]] const Trial& runner_of(const Trial& trial) const {
    return *std::find_if(trials.begin(), trials.end(),
                         [&trial](const Trial& other) { return other.correction.algorithm == trial.runner; });
  }

  [[nodiscard]] std::ptrdiff_t running() const {
    return std::count_if(trials.begin(), trials.end(), [](const Trial& trial) { return trial.runs; });
  }

  void note_round(double round_seconds) {
    spent += round_seconds;
    if (++rounds == 1) return;
    leave_out(&Trial::measured, rounds < least_rounds ? beaten : beaten_again);
    const bool enough = rounds == most_rounds || (rounds >= least_rounds && spent >= measured_seconds);
    if (!enough && running() > 1) return;
    for (Trial& trial : trials)
      trial.runs = false;
  }
};

class Trials {
 public:
  Trials(Communicator& communicator, const Topology& topology, const CollectiveProfile& profile)
      : communicator_(communicator), topology_(topology), profile_(profile) {}

  /// Large tables first: connections that had much to carry are slower afterwards, as they are in a training run.
  std::vector<CollectiveCorrection> measure() {
    std::int64_t bytes = smallest_bytes;
    while (size_step * bytes <= largest_bytes && predicted_best(size_step * bytes) < long_enough)
      bytes *= size_step;
    measure(smallest_bytes);  // makes connections
    found_.clear();
    for (; bytes >= smallest_bytes; bytes /= size_step)
      measure(bytes);
    return std::move(found_);
  }

 private:
  /// Mean of all but the slowest quarter (of two, of the faster one): what was late, or sent again, only adds.
  static double typical(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    values.resize(values.size() - (values.size() + 2) / 4);
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }

  /// As many elements as can be cut into equal parts.
  [[nodiscard]] SegmentTable table_of(bool one_owner, std::int64_t bytes) const {
    std::int64_t elements = bytes / static_cast<std::int64_t>(sizeof(float));
    if (elements > topology_.world_size()) elements -= elements % topology_.world_size();
    SegmentTable table = even_table(elements, topology_.world_size());
    for (std::size_t rank = 0; one_owner && rank < table.intervals.size(); ++rank)
      table.intervals[rank][0] = {rank == 0 ? 0 : elements, elements};
    return table;
  }

  /// Seconds of an even unshard.
  [[nodiscard]] double predicted_best(std::int64_t bytes) const {
    return choose_unshard(table_of(false, bytes), topology_, profile_).seconds;
  }

  /// In rounds all contests and algorithms take turns, forwards and backwards: what runs before leaves its traces, in
  /// queues and in the windows of connections, as one unit's collectives do for the next one's.
  void measure(std::int64_t bytes) {
    contests_.clear();
    for (const auto operation : {CollectiveOperation::unshard, CollectiveOperation::reduce}) {
      for (const bool one_owner : {false, true})
        contests_.push_back(prepare(operation, one_owner, bytes));
    }
    find_runners();
    for (Contest& contest : contests_)
      contest.leave_out(&Trial::predicted, hopeless);
    run_first();
    while (
        std::any_of(contests_.begin(), contests_.end(), [](const Contest& contest) { return contest.running() > 0; }))
      run_round();
    keep();
  }

  /// Of algorithms that send the same messages (direct and scatter do for an even table) the first runs for all.
  void find_runners() {
    std::vector<double> differ;  // of each pair in a contest: whether they do on any rank
    for (const Contest& contest : contests_) {
      for (const Trial& a : contest.trials) {
        for (const Trial& b : contest.trials)
          differ.push_back(send_the_same(a, b) ? 0 : 1);
      }
    }
    differ = slowest_of(communicator_, std::move(differ));
    auto pair = differ.begin();
    for (Contest& contest : contests_) {
      const auto count = static_cast<std::ptrdiff_t>(contest.trials.size());
      for (Trial& trial : contest.trials) {
        const Trial& runner = contest.trials[static_cast<std::size_t>(std::find(pair, pair + count, 0.0) - pair)];
        trial.runner = runner.correction.algorithm;
        trial.runs = &runner == &trial;
        pair += count;
      }
    }
  }
  static bool send_the_same(const Trial& a, const Trial& b) {
    return a.correction.operation == CollectiveOperation::unshard ? same_messages(a.unshard, b.unshard)
                                                                  : same_messages(a.reduce, b.reduce);
  }

  /// What was not measured, because another was predicted to be much faster, is as far from its prediction as that one:
  /// it stays behind it, whatever smaller tables took.
  void keep() {
    for (Contest& contest : contests_) {
      const auto first = std::min_element(contest.trials.begin(), contest.trials.end(),
                                          [](const Trial& a, const Trial& b) { return a.predicted < b.predicted; });
      const double instead = contest.runner_of(*first).measured / first->predicted;
      for (Trial& trial : contest.trials) {
        const Trial& runner = contest.runner_of(trial);
        trial.correction.factor = runner.seconds.empty() ? instead : runner.measured / trial.predicted;
        found_.push_back(trial.correction);
      }
    }
  }

  [[nodiscard]] Contest prepare(CollectiveOperation operation, bool one_owner, std::int64_t bytes) const {
    const SegmentTable table = table_of(one_owner, bytes);
    const int rank = communicator_.rank();
    Contest contest;
    contest.shard = make_zeros<float>("calibration", table.shard_size(rank));
    contest.buffer = make_zeros<float>("calibration", table.size);
    for (const CollectiveAlgorithm algorithm : collective_candidates(operation, table, topology_)) {
      Trial trial;
      trial.correction = {operation, algorithm, one_owner, bytes, 1};
      if (operation == CollectiveOperation::unshard) {
        trial.unshard = prepare_unshard(algorithm, table, topology_, rank);
        trial.predicted = predicted_unshard_seconds(algorithm, table, topology_, profile_);
      } else {
        trial.reduce = prepare_reduce(algorithm, table, topology_);
        trial.sums = make_tensor<float>("calibration", running_sum_elements(trial.reduce, rank));
        trial.predicted = predicted_reduce_seconds(trial.reduce, topology_, profile_);
      }
      contest.trials.push_back(std::move(trial));
    }
    return contest;
  }

  void run_round() {
    std::vector<double> mine;
    std::vector<Trial*> run;
    for (Contest& contest : contests_) {
      for (Trial& trial : contest.trials) {
        if (!trial.runs) continue;
        mine.push_back(time(contest, trial));
        run.push_back(&trial);
      }
    }
    const std::vector<double> slowest = slowest_of(communicator_, mine);
    for (std::size_t i = 0; i < run.size(); ++i) {
      run[i]->seconds.push_back(slowest[i]);
      run[i]->measured = typical(run[i]->seconds);
    }
    for (Contest& contest : contests_) {
      double seconds = 0;
      for (const Trial& trial : contest.trials)
        seconds += trial.runs ? trial.seconds.back() : 0;
      if (contest.running() > 0) contest.note_round(seconds);
    }
    turn_around();
  }

  /// Once more than it counts: the first after another size is slower than any other.
  void run_first() {
    for (const Contest& contest : contests_) {
      for (const Trial& trial : contest.trials) {
        if (!trial.runs) continue;
        time(contest, trial);
        return;
      }
    }
  }

  void turn_around() {
    for (Contest& contest : contests_)
      std::reverse(contest.trials.begin(), contest.trials.end());
    std::reverse(contests_.begin(), contests_.end());
  }

  double time(const Contest& contest, const Trial& trial) {
    std::this_thread::sleep_for(idle);
    communicator_.barrier(label);
    const auto begin = Clock::now();
    if (trial.correction.operation == CollectiveOperation::unshard)
      gather(communicator_, Purpose::other, trial.unshard, contest.shard, contest.buffer, label).wait();
    else
      reduce(communicator_, trial.reduce, {}, contest.buffer, trial.sums, contest.shard, label).wait();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Communicator& communicator_;
  const Topology& topology_;
  const CollectiveProfile& profile_;
  std::vector<Contest> contests_;
  std::vector<CollectiveCorrection> found_;
};

}  // namespace

std::vector<double> slowest_of(Communicator& communicator, std::vector<double> mine) {
  const auto parts = communicator.all_gather(Purpose::other, std::as_bytes(std::span(mine)), label);
  require_part_sizes(parts, mine.size() * sizeof(double), label);
  std::vector<double> theirs(mine.size());
  for (const auto& part : parts) {
    std::memcpy(theirs.data(), part.data(), part.size());
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] = std::max(mine[i], theirs[i]);
  }
  return mine;
}

std::vector<CollectiveCorrection> measure_corrections(Communicator& communicator, const Topology& topology,
                                                      const CollectiveProfile& profile) {
  if (topology.world_size() == 1) return {};
  Communicator apart = mpi::duplicate(communicator);  // whose bytes of unshard and reduce nobody counts
  return Trials(apart, topology, profile).measure();
}

}  // namespace matrixfsdp::detail

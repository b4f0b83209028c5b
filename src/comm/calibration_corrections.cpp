#include "comm/calibration_corrections.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
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
/// Before each: links and queues are as empty as after compute, whatever ran before.
constexpr std::chrono::milliseconds idle{3};
/// Predicted of the best: no larger tables but the smallest.
constexpr double long_enough = 0.05;
/// Of all rounds of one table, with the pauses between, as far as fewest_rounds allow.
constexpr double measured_seconds = 0.2;
constexpr int fewest_rounds = 3;
constexpr int most_rounds = 25;
/// Of the best of the first round, or of what it is predicted to take: what is slower is not chosen, and not measured.
constexpr double hopeless = 2;

/// One algorithm on one table.
struct Trial {
  CollectiveCorrection correction;
  double predicted = 0;
  Unshard unshard;
  Reduce reduce;
  Tensor<float> sums;
  bool runs = true;
  double least = std::numeric_limits<double>::infinity();  ///< of the slowest rank, of all rounds
  std::vector<double> seconds;                             ///< of the slowest rank, of each round that counts
};

class Trials {
 public:
  Trials(Communicator& communicator, const Topology& topology, const CollectiveProfile& profile)
      : communicator_(communicator), topology_(topology), profile_(profile) {}

  /// Large tables first: connections that had much to carry are slower afterwards, as they are in a training run.
  void measure(CollectiveOperation operation, bool one_owner) {
    std::int64_t bytes = smallest_bytes;
    while (2 * bytes <= largest_bytes && prepare(operation, one_owner, 2 * bytes) < long_enough)
      bytes *= 2;
    for (; bytes >= smallest_bytes; bytes /= 2) {
      prepare(operation, one_owner, bytes);
      measure();
    }
  }
  [[nodiscard]] std::vector<CollectiveCorrection> take() { return std::move(found_); }

 private:
  static double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  }

  /// In rounds all take turns, forwards and backwards: what runs before leaves its traces.
  void measure() {
    leave_out(&Trial::predicted);
    run_round();
    for (Trial& trial : trials_)
      trial.seconds.clear();  // pages were touched, connections made
    const double first = run_round();
    leave_out(&Trial::least);
    const int rounds = std::clamp(static_cast<int>(measured_seconds / first), fewest_rounds, most_rounds);
    for (int round = 1; round < rounds; ++round)
      run_round();
    for (Trial& trial : trials_) {  // what was not measured stays as predicted, whatever smaller tables took
      if (!trial.seconds.empty()) trial.correction.factor = median(trial.seconds) / trial.predicted;
      found_.push_back(trial.correction);
    }
  }

  [[nodiscard]] SegmentTable table_of(bool one_owner, std::int64_t elements) const {
    SegmentTable table = even_table(elements, topology_.world_size());
    for (std::size_t rank = 0; one_owner && rank < table.intervals.size(); ++rank)
      table.intervals[rank][0] = {rank == 0 ? 0 : elements, elements};
    return table;
  }

  /// Returns the seconds that the best is predicted to take.
  double prepare(CollectiveOperation operation, bool one_owner, std::int64_t bytes) {
    table_ = table_of(one_owner, bytes / static_cast<std::int64_t>(sizeof(float)));
    double least = std::numeric_limits<double>::infinity();
    shard_ = make_zeros<float>("calibration", table_.shard_size(communicator_.rank()));
    buffer_ = make_zeros<float>("calibration", table_.size);
    trials_.clear();
    for (const CollectiveAlgorithm algorithm : collective_candidates(operation, table_)) {
      Trial trial;
      trial.correction = {operation, algorithm, one_owner, bytes, 1};
      if (operation == CollectiveOperation::unshard) {
        trial.unshard = prepare_unshard(algorithm, table_, topology_, communicator_.rank());
        trial.predicted = predicted_unshard_seconds(algorithm, table_, topology_, profile_);
      } else {
        trial.reduce = prepare_reduce(algorithm, table_, topology_);
        trial.sums = make_tensor<float>("calibration", running_sum_elements(trial.reduce, communicator_.rank()));
        trial.predicted = predicted_reduce_seconds(trial.reduce, topology_, profile_);
      }
      least = std::min(least, trial.predicted);
      trials_.push_back(std::move(trial));
    }
    return least;
  }

  /// Those that take far longer than the best.
  void leave_out(double Trial::*seconds) {
    double least = std::numeric_limits<double>::infinity();
    for (const Trial& trial : trials_)
      least = trial.runs ? std::min(least, trial.*seconds) : least;
    for (Trial& trial : trials_)
      trial.runs = trial.runs && trial.*seconds <= hopeless * least;
  }

  /// Seconds of the whole round, on the slowest rank.
  double run_round() {
    const auto begin = Clock::now();
    std::vector<double> mine;
    for (Trial& trial : trials_)
      mine.push_back(trial.runs ? time(trial) : 0);
    mine.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    const std::vector<double> slowest = slowest_of(communicator_, mine);
    for (std::size_t i = 0; i < trials_.size(); ++i) {
      if (!trials_[i].runs) continue;
      trials_[i].seconds.push_back(slowest[i]);
      trials_[i].least = std::min(trials_[i].least, slowest[i]);
    }
    std::reverse(trials_.begin(), trials_.end());
    return slowest.back();
  }

  double time(const Trial& trial) {
    std::this_thread::sleep_for(idle);
    communicator_.barrier(label);
    const auto begin = Clock::now();
    if (trial.correction.operation == CollectiveOperation::unshard)
      gather(communicator_, Purpose::other, trial.unshard, shard_, buffer_, label).wait();
    else
      reduce(communicator_, trial.reduce, {}, buffer_, trial.sums, shard_, label).wait();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Communicator& communicator_;
  const Topology& topology_;
  const CollectiveProfile& profile_;
  SegmentTable table_;
  Tensor<float> shard_;
  Tensor<float> buffer_;
  std::vector<Trial> trials_;
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
  Trials trials(apart, topology, profile);
  for (const auto operation : {CollectiveOperation::unshard, CollectiveOperation::reduce}) {
    for (const bool one_owner : {false, true})
      trials.measure(operation, one_owner);
  }
  return trials.take();
}

}  // namespace matrixfsdp::detail

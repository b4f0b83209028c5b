#include "apps/train/optimizer_profile.hpp"

#include <cstring>
#include <span>
#include <vector>

#include <matrixfsdp/schema/optimizer_profile.hpp>

#include "apps/train/first_rank.hpp"

namespace matrixfsdp::train {
namespace {

const OperationLabel label{"optimizer profile", "", ""};

}  // namespace

void OptimizerTimes::add(const StepResult& step) {
  ++steps_;
  if (steps_ == 2) sums_.clear();
  for (const MatrixSeconds& one : step.seconds) {
    Sum& sum = sums_[matrix_work(*one.parameter)];
    ++sum.steps;
    sum.seconds += one.seconds;
  }
}

OptimizerProfile OptimizerTimes::gather(Communicator& communicator, int plan_ranks) const {
  std::vector<MeasuredWork> mine;
  for (const auto& [work, sum] : sums_) {
    if (sum.seconds > 0)
      mine.push_back({communicator.rank() % plan_ranks, work, sum.steps, sum.seconds / static_cast<double>(sum.steps)});
  }
  OptimizerProfile profile;
  profile.world_size = plan_ranks;
  for (const auto& part : communicator.all_gather(Purpose::other, std::as_bytes(std::span(mine)), label)) {
    std::vector<MeasuredWork> theirs(part.size() / sizeof(MeasuredWork));
    if (!theirs.empty()) std::memcpy(theirs.data(), part.data(), theirs.size() * sizeof(MeasuredWork));
    profile.measured.insert(profile.measured.end(), theirs.begin(), theirs.end());
  }
  return profile;
}

OptimizerProfile optimizer_profile(Communicator& communicator, const std::string& path) {
  std::string text;
  on_first_rank(communicator, "--profile", path,
                [&] { text = R"({"optimizer_profile":)" + io::to_text(io::read_optimizer_profile(path)) + "}"; });
  const auto bytes = communicator.broadcast(Purpose::other, std::as_bytes(std::span(text)), 0, label);
  return io::parse_optimizer_profile(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), path);
}

}  // namespace matrixfsdp::train

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/schema/checkpoint_reader.hpp>

#include "io/checkpoint/agree.hpp"
#include "io/checkpoint/first_valid.hpp"
#include "io/checkpoint/local_tensors.hpp"
#include "io/checkpoint/match.hpp"
#include "io/checkpoint/open.hpp"

namespace matrixfsdp::io {
namespace {

/// A stored segment that this rank needs, and where its elements go.
struct Transfer {
  const StoredSegment* segment = nullptr;
  std::vector<std::size_t> tensors;  // indices
};

/// By file and dataset, so that each file is opened once.
std::vector<Transfer> transfers(const StoredTensors& stored, const std::vector<LocalTensor>& tensors) {
  std::map<std::pair<std::string_view, std::string_view>, Transfer> needed;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    for (const StoredSegment* segment : stored.at({tensors[t].spec->name, tensors[t].what})) {
      if (intersect(segment->elements, tensors[t].elements).empty()) continue;
      Transfer& transfer = needed[{segment->file, segment->dataset}];
      transfer.segment = segment;
      transfer.tensors.push_back(t);
    }
  }
  std::vector<Transfer> list;
  list.reserve(needed.size());
  for (auto& [place, transfer] : needed)
    list.push_back(std::move(transfer));
  return list;
}

class Filling {
 public:
  explicit Filling(const std::vector<LocalTensor>& tensors) : tensors_(tensors), filled_(tensors.size(), 0) {}

  void read(const TensorFileReader& reader, const Transfer& transfer) {
    const StoredSegment& segment = *transfer.segment;
    read_segment(reader, segment, tensors_[transfer.tensors.front()].spec->shape,
                 [&](std::int64_t first, std::span<const std::byte> values) {
                   for (const std::size_t t : transfer.tensors)
                     copy(segment.elements.begin + first, values, t);
                 });
  }

  void finish() const {
    for (std::size_t t = 0; t < tensors_.size(); ++t) {
      if (filled_[t] == tensors_[t].elements.size()) continue;
      throw IoError(fmt::format("{} of '{}': {} elements were filled; expected {}", tensors_[t].what,
                                tensors_[t].spec->name, filled_[t], tensors_[t].elements.size()));
    }
  }

 private:
  void copy(std::int64_t begin, std::span<const std::byte> values, std::size_t t) {
    constexpr auto width = static_cast<std::int64_t>(sizeof(float));
    const LocalTensor& tensor = tensors_[t];
    const Interval common =
        intersect({begin, begin + static_cast<std::int64_t>(values.size()) / width}, tensor.elements);
    if (common.empty()) return;
    std::memcpy(tensor.values.data() + (common.begin - tensor.elements.begin),
                values.data() + (common.begin - begin) * width, static_cast<std::size_t>(common.size() * width));
    filled_[t] += common.size();
  }

  const std::vector<LocalTensor>& tensors_;
  std::vector<std::int64_t> filled_;
};

void fill(const std::string& folder, const StoredTensors& stored, const std::vector<LocalTensor>& tensors) {
  Filling filling(tensors);
  std::unique_ptr<TensorFileReader> reader;
  std::string_view open_file;
  for (const Transfer& transfer : transfers(stored, tensors)) {
    if (reader == nullptr || open_file != transfer.segment->file) {
      reader = std::make_unique<TensorFileReader>(folder + "/" + transfer.segment->file);
      open_file = transfer.segment->file;
    }
    filling.read(*reader, transfer);
  }
  filling.finish();
}

/// What is wrong with the files, if anything is. Throws InputError where the checkpoint is another model's. Without an
/// optimizer the weights alone are loaded.
std::optional<Failure> try_load(const std::string& step_folder, ShardedModel& model, Optimizer* optimizer,
                                TrainingState& state) {
  Communicator& communicator = model.communicator();
  Manifest manifest;
  if (auto failure = open_checkpoint(communicator, step_folder, manifest)) return failure;

  model.complete();  // weights may still be on their way to others
  Kokkos::fence();   // kernels may still read what is overwritten here
  const auto tensors = optimizer != nullptr ? local_tensors(model, *optimizer) : local_weights(model);
  const auto stored = stored_tensors(manifest);
  const auto mismatch = agree(communicator, "comparison with the checkpoint", attempt([&] {
                                match_model(manifest.model, model.spec());
                                match_state(stored, tensors, optimizer != nullptr);
                              }));
  if (mismatch) mismatch->raise();
  if (auto damage = agree(communicator, "load", attempt([&] { fill(step_folder, stored, tensors); }))) return damage;
  model.weights_changed();
  state = manifest.state;
  return std::nullopt;
}

TrainingState load(const std::string& step_folder, ShardedModel& model, Optimizer* optimizer,
                   std::chrono::milliseconds deadline) {
  const Patience patience(model.communicator(), deadline);
  require_equal(model.communicator(), stream_of(step_folder), "checkpoint to read (hash)");
  TrainingState state;
  if (const auto failure = try_load(step_folder, model, optimizer, state)) failure->raise();
  return state;
}

}  // namespace

TrainingState load_checkpoint(const std::string& step_folder, ShardedModel& model, Optimizer& optimizer,
                              std::chrono::milliseconds deadline) {
  return load(step_folder, model, &optimizer, deadline);
}

TrainingState load_weights(const std::string& step_folder, ShardedModel& model, std::chrono::milliseconds deadline) {
  return load(step_folder, model, nullptr, deadline);
}

std::optional<LoadedCheckpoint> load_latest(const std::string& folder, ShardedModel& model, Optimizer& optimizer,
                                            std::chrono::milliseconds deadline) {
  const Patience patience(model.communicator(), deadline);
  TrainingState state;
  auto loaded = first_valid(model.communicator(), folder, [&](const std::string& step_folder) {
    return try_load(step_folder, model, &optimizer, state);
  });
  if (!loaded) return std::nullopt;
  return LoadedCheckpoint{std::move(*loaded), std::move(state)};
}

}  // namespace matrixfsdp::io

#include <span>

#include <fmt/format.h>

#include <matrixfsdp/checkpoint/checkpoint.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/random.hpp>
#include <matrixfsdp/schema/folders.hpp>
#include <matrixfsdp/schema/index_file.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

#include "io/checkpoint/agree.hpp"
#include "io/checkpoint/local_tensors.hpp"

namespace matrixfsdp::io {
namespace {

class RankFile {
 public:
  RankFile(const std::string& folder, int rank)
      : folder_(folder), name_(rank_file_name(rank)), writer_(folder + "/" + name_) {}

  void write(const LocalTensor& tensor) {
    const ParameterSpec& spec = *tensor.spec;
    const std::span<const float> values(tensor.values.data(), tensor.values.size());
    const TensorInfo info{DType::float32, spec.shape, tensor.elements, tensor.optimizer};
    const std::string dataset = dataset_path(spec.name, tensor.what, tensor.segment);
    const std::uint64_t checksum = writer_.write(dataset, info, std::as_bytes(values));
    part_.segments.push_back({spec.name, tensor.what, name_, dataset, tensor.elements, info.dtype,
                              static_cast<std::int64_t>(values.size_bytes()), checksum, tensor.optimizer});
  }

  ManifestPart finish() {
    writer_.close();
    flush_to_disk(folder_);
    part_.files.push_back(describe_file(folder_, name_));
    return part_;
  }

 private:
  std::string folder_;
  std::string name_;
  TensorFileWriter writer_;
  ManifestPart part_;
};

std::vector<const ParameterSpec*> parameters_without_elements(const ModelSpec& model) {
  std::vector<const ParameterSpec*> found;
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (element_count(parameter.shape) == 0) found.push_back(&parameter);
    }
  }
  return found;
}

ManifestPart write_rank(const std::string& folder, const ShardedModel& model, Optimizer& optimizer) {
  const int rank = model.communicator().rank();
  if (rank > 0 && (model.plan().replicated || rank >= model.plan().world_size)) return {};  // others hold the same
  const auto tensors = local_tensors(model, optimizer);
  // Nobody holds them, but they are in the model: rank 0 writes them, for readers that expect every name.
  const auto empty = rank == 0 ? parameters_without_elements(model.spec()) : std::vector<const ParameterSpec*>();
  if (tensors.empty() && empty.empty()) return {};
  RankFile file(folder, rank);
  for (const LocalTensor& tensor : tensors)
    file.write(tensor);
  for (const ParameterSpec* spec : empty)
    file.write({spec, std::string(weight_name), {}, -1, {}, {}});
  return file.finish();
}

std::vector<ManifestPart> gather_parts(Communicator& communicator, const ManifestPart& mine) {
  const std::string text = to_text(mine);
  const auto all = communicator.all_gather(Purpose::other, std::as_bytes(std::span(text)),
                                           {"exchange of the manifest", "", "checkpoint"});
  std::vector<ManifestPart> parts;
  if (communicator.rank() != 0) return parts;
  for (const auto& bytes : all)
    parts.push_back(parse_manifest_part({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
  return parts;
}

void raise(const std::optional<Failure>& failure) {
  if (failure) failure->raise();
}

}  // namespace

std::string save_checkpoint(const std::string& folder, const ShardedModel& model, Optimizer& optimizer,
                            const TrainingState& state, const SaveOptions& options) {
  Communicator& communicator = model.communicator();
  const Patience patience(communicator, options.deadline);
  require(options.keep_last >= 0, "checkpoints to keep: expected 0 (all) or more");
  require_equal(communicator, stream_of(fmt::format("{} {}", state.step, folder)), "checkpoint to write (hash)");
  Kokkos::fence();  // kernels may still write what is saved here

  std::string temporary;
  raise(from_rank_zero(
      communicator, "start of a save",
      [&] {
        remove_stale_folders(folder);
        return make_temporary_folder(folder, state.step);
      },
      temporary));
  Unpublished unpublished(folder + "/" + temporary, communicator.rank() == 0);

  ManifestPart mine;
  raise(agree(communicator, "save", attempt([&] { mine = write_rank(unpublished.path(), model, optimizer); })));
  const auto parts = gather_parts(communicator, mine);

  std::string name;
  raise(from_rank_zero(
      communicator, "end of a save",
      [&] {
        Manifest manifest{
            state, model.spec(), model.plan().planner, model.plan().world_size, model.plan().replicated, {}, {}};
        add_parts(manifest, parts);
        manifest.files.insert(manifest.files.begin(), write_index_file(unpublished.path(), manifest));
        write_text_durably(fmt::format("{}/{}", unpublished.path(), manifest_name), to_text(manifest));
        publish(folder, temporary, state.step);
        unpublished.published();
        prune(folder, state.step, options.keep_last);
        return step_name(state.step);
      },
      name));
  return folder + "/" + name;
}

}  // namespace matrixfsdp::io

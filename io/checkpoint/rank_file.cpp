#include "io/checkpoint/rank_file.hpp"

#include <span>

#include <matrixfsdp/schema/folders.hpp>
#include <matrixfsdp/schema/tensor_file.hpp>

#include "io/checkpoint/job.hpp"

namespace matrixfsdp::io {
namespace {

class RankFile {
 public:
  RankFile(const std::string& folder, int rank)
      : folder_(folder), name_(rank_file_name(rank)), writer_(folder + "/" + name_) {}

  void write(const LocalTensor& tensor, std::span<const float> values) {
    const ParameterSpec& spec = *tensor.spec;
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

void add_parameters_without_elements(const ModelSpec& model, std::vector<LocalTensor>& tensors) {
  for (const UnitSpec& unit : model.units) {
    for (const ParameterSpec& parameter : unit.parameters) {
      if (element_count(parameter.shape) == 0)
        tensors.push_back({&parameter, std::string(weight_name), {}, -1, {}, {}});
    }
  }
}

}  // namespace

std::vector<LocalTensor> tensors_to_save(const ShardedModel& model, Optimizer& optimizer) {
  const int rank = model.communicator().rank();
  if (rank > 0 && (model.plan().replicated || rank >= model.plan().world_size)) return {};  // others hold the same
  auto tensors = local_tensors(model, optimizer);
  // Nobody holds them, but they are in the model: rank 0 writes them, for readers that expect every name.
  if (rank == 0) add_parameters_without_elements(model.spec(), tensors);
  return tensors;
}

ManifestPart write_rank_file(const std::string& folder, int rank, Snapshot& snapshot,
                             const std::atomic<bool>& cancelled) {
  const auto& tensors = snapshot.tensors();
  if (tensors.empty()) return {};
  RankFile file(folder, rank);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (cancelled) throw Job::Cancelled();
    file.write(tensors[i], snapshot.read(i));
  }
  return file.finish();
}

}  // namespace matrixfsdp::io

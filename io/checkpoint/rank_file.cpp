#include "io/checkpoint/rank_file.hpp"

#include <cstdint>
#include <span>

#include <fmt/format.h>
#include <sys/resource.h>

#include <matrixfsdp/core/error.hpp>
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
    const TensorInfo info{DType::float32, tensor.shape ? *tensor.shape : spec.shape, tensor.elements, tensor.optimizer};
    const std::string dataset = dataset_path(spec.name, tensor.what, tensor.segment);
    const std::uint64_t checksum = writer_.write(dataset, info, std::as_bytes(values));
    part_.segments.push_back({spec.name, tensor.what, name_, dataset, tensor.elements, info.dtype,
                              static_cast<std::int64_t>(values.size_bytes()), checksum, tensor.optimizer,
                              tensor.shape});
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

/// Before HDF5 meets it: no file of a process may be larger than RLIMIT_FSIZE, not even one in memory, so that HDF5
/// could not get rid of what it has failed to write, and would crash at exit.
void check_size_limit(const std::string& path, const std::vector<LocalTensor>& tensors) {
  constexpr std::uint64_t description = 4096;  // of a dataset, more than it takes
  std::uint64_t bytes = description;
  for (const LocalTensor& tensor : tensors)
    bytes += description + tensor.values.size() * sizeof(float);
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur) return;
  throw IoError(fmt::format("'{}': File too large: up to {} bytes; this process may write {} (ulimit -f)", path, bytes,
                            limit.rlim_cur));
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
  check_size_limit(folder + "/" + rank_file_name(rank), tensors);
  RankFile file(folder, rank);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (cancelled) throw Job::Cancelled();
    file.write(tensors[i], snapshot.read(i));
  }
  return file.finish();
}

}  // namespace matrixfsdp::io

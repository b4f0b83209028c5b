#pragma once

#include <atomic>
#include <string>
#include <vector>

#include <matrixfsdp/schema/manifest.hpp>

#include "io/checkpoint/snapshot.hpp"

namespace matrixfsdp::io {

/// What this rank writes of the model: nothing where another rank holds the same.
std::vector<LocalTensor> tensors_to_save(const ShardedModel& model, Optimizer& optimizer);

/// Writes the tensors to this rank's file in `folder`, makes sure that it is on disk, and returns what the manifest
/// says of it; no tensors: no file. Throws IoError, and Job::Cancelled.
ManifestPart write_rank_file(const std::string& folder, int rank, Snapshot& snapshot,
                             const std::atomic<bool>& cancelled);

}  // namespace matrixfsdp::io

#include "baselines/row_tables.hpp"

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/plan/row_shards.hpp>

namespace matrixfsdp::baselines {

RowTables::RowTables(Communicator& communicator, CollectiveAlgorithm algorithm)
    : topology_(mpi::topology_of(communicator)), rank_(communicator.rank()), algorithm_(algorithm) {}

const Unshard& RowTables::rows(std::int64_t rows, std::int64_t cols) {
  const auto known = rows_.find({rows, cols});
  if (known != rows_.end()) return known->second;
  return rows_[{rows, cols}] =
             prepare_unshard(algorithm_, row_table(rows, cols, topology_.world_size()), topology_, rank_);
}

const Unshard& RowTables::chunks(std::int64_t size) {
  const auto known = chunks_.find(size);
  if (known != chunks_.end()) return known->second;
  return chunks_[size] = prepare_unshard(algorithm_, even_table(size, topology_.world_size()), topology_, rank_);
}

}  // namespace matrixfsdp::baselines

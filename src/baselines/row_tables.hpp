#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include <matrixfsdp/comm/communicator.hpp>
#include <matrixfsdp/plan/collective.hpp>

namespace matrixfsdp::baselines {

/// Gathers made ready, once for each shape.
class RowTables {
 public:
  /// Collective: asks which ranks share a node.
  RowTables(Communicator& communicator, CollectiveAlgorithm algorithm);

  /// Of the row shards of a rows x cols matrix.
  const Unshard& rows(std::int64_t rows, std::int64_t cols);
  /// Of the even cut of `size` elements.
  const Unshard& chunks(std::int64_t size);
  /// Elements of a message among these ranks.
  [[nodiscard]] std::int64_t message() const { return message_elements(topology_); }

 private:
  Topology topology_;
  int rank_;
  CollectiveAlgorithm algorithm_;
  std::map<std::pair<std::int64_t, std::int64_t>, Unshard> rows_;
  std::map<std::int64_t, Unshard> chunks_;
};

}  // namespace matrixfsdp::baselines

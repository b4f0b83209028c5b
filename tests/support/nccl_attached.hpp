#pragma once

#include <optional>
#include <utility>

#include <gtest/gtest.h>

#include <matrixfsdp/comm/nccl.hpp>
#include <matrixfsdp/comm/segments.hpp>

#include "support/mpi_world.hpp"

namespace matrixfsdp::testing {

/// A communicator over all ranks whose segments go over NCCL.
struct Attached {
  explicit Attached(const nccl::Options& options = {})
      : communicator(duplicate_world()), attachment(nccl::attach(communicator, options)) {}

  [[nodiscard]] bool active() const { return attachment.active(); }

  Communicator communicator;
  nccl::Attachment attachment;  // ends first
};

}  // namespace matrixfsdp::testing

/// Skips the test where NCCL cannot be used (on every rank alike), with the reason.
#define MATRIXFSDP_NEED_NCCL(attached) \
  if (!(attached).active()) GTEST_SKIP() << (attached).attachment.description()

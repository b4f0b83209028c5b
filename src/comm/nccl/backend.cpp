#include "comm/nccl/backend.hpp"

#include <utility>

#include <fmt/format.h>

#include <matrixfsdp/core/error.hpp>

namespace matrixfsdp::nccl {

Backend::Backend(std::shared_ptr<Engine> engine, const Options& options)
    : engine_(std::move(engine)), options_(options) {}

Request Backend::start(const OperationLabel& label, const std::function<void(Operation&)>& build) {
  std::shared_ptr<Operation> operation;
  try {
    operation = std::make_shared<Operation>(engine_);
    build(*operation);
    operation->finish();
  } catch (const CommunicationError& error) {
    engine_->fail(error.what());
    throw CommunicationError(fmt::format("rank {}: {}: {}", engine_->channel()->rank, to_string(label), error.what()));
  }
  return engine_->start(operation, label);
}

}  // namespace matrixfsdp::nccl

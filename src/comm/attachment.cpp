#include <exception>
#include <utility>

#include <matrixfsdp/comm/nccl.hpp>
#include <matrixfsdp/core/log.hpp>

#include "comm/segment_backend.hpp"

namespace matrixfsdp::nccl {

Attachment::Attachment(std::shared_ptr<SegmentBackend> backend, std::string description)
    : backend_(std::move(backend)), description_(std::move(description)), exceptions_(std::uncaught_exceptions()) {}

Attachment::Attachment(Attachment&& other) noexcept = default;

Attachment::~Attachment() {
  if (!active()) return;
  if (std::uncaught_exceptions() > exceptions_) {
    backend_->abort();
    return;
  }
  try {
    backend_->detach();
  } catch (const std::exception& error) {
    log_line(error.what());
  }
}

bool Attachment::active() const {
  return backend_ != nullptr && backend_->attached();
}

void Attachment::detach() {
  if (active()) backend_->detach();
}

}  // namespace matrixfsdp::nccl

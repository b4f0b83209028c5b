#pragma once

#include <functional>
#include <memory>

#include "comm/nccl/engine.hpp"
#include "comm/nccl/operation.hpp"
#include "comm/segment_backend.hpp"

namespace matrixfsdp::nccl {

class Backend final : public SegmentBackend {
 public:
  Backend(std::shared_ptr<Engine> engine, const Options& options);

  [[nodiscard]] bool attached() const override { return !engine_->ended(); }
  void detach() override { engine_->end(); }
  void abort() noexcept override { engine_->fail("its attachment was destroyed by an exception"); }

  Request gather(Purpose purpose, const Unshard& unshard, const float* shard, float* buffer,
                 const OperationLabel& label) override;
  Request reduce(const Reduce& prepared, Pass pass, float* buffer, float* sums, float* shard,
                 const OperationLabel& label) override;

 private:
  /// A new operation whose steps `build` adds.
  Request start(const OperationLabel& label, const std::function<void(Operation&)>& build);

  std::shared_ptr<Engine> engine_;
  Options options_;
};

}  // namespace matrixfsdp::nccl

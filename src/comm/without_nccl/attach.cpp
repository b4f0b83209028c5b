#include <matrixfsdp/comm/nccl.hpp>

namespace matrixfsdp::nccl {

std::string library_description() {
  return "NCCL: not built in";
}

Attachment attach(Communicator& /*communicator*/, const Options& /*options*/) {
  return {nullptr, "segments stay with MPI: this build has no NCCL (MATRIXFSDP_ENABLE_NCCL)"};
}

}  // namespace matrixfsdp::nccl

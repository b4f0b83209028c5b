#include <utility>

#include "comm/mpi/exchange.hpp"

namespace matrixfsdp {
namespace mpi {
namespace {

/// Dissemination barrier (Hensgen, Finkel, Manber 1988): in round k an empty message goes to rank + 2^k.
class Barrier final : public Exchange {
 public:
  explicit Barrier(std::shared_ptr<Channel> channel) : Exchange(std::move(channel), Purpose::other, {1, 1}) {}

 private:
  bool next_stage() override {
    if (distance_ >= size()) return false;
    send_message((rank() + distance_) % size(), nullptr, 0);
    receive_message((rank() + size() - distance_) % size(), nullptr, 0);
    distance_ *= 2;
    return true;
  }

  int distance_ = 1;
};

}  // namespace
}  // namespace mpi

void Communicator::barrier(const OperationLabel& label) {
  mpi::issue(std::make_shared<mpi::Barrier>(implementation().channel), label).wait();
}

}  // namespace matrixfsdp

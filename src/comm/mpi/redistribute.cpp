#include <fmt/format.h>

#include <matrixfsdp/comm/redistribute.hpp>
#include <matrixfsdp/core/error.hpp>

#include "comm/mpi/exchange.hpp"

namespace matrixfsdp {
namespace mpi {
namespace {

class Redistribution final : public Exchange {
 public:
  Redistribution(std::shared_ptr<Channel> channel, Purpose purpose, const std::vector<PeerElements<const float>>& sends,
                 const std::vector<PeerElements<float>>& receives, std::int64_t message)
      : Exchange(std::move(channel), purpose, {4 * message, exchange_window}) {
    for (const auto& from : receives)
      receive(from.peer, from.values.data(), bytes_of(from.values));
    for (const auto& to : sends)
      send(to.peer, to.values.data(), bytes_of(to.values));
  }

 private:
  template <class View>
  static std::int64_t bytes_of(const View& values) {
    return static_cast<std::int64_t>(values.size() * sizeof(float));
  }
};

}  // namespace
}  // namespace mpi

namespace {

void require_peer(int peer, const Communicator& communicator, const OperationLabel& label) {
  if (peer >= 0 && peer < communicator.size() && peer != communicator.rank()) return;
  throw ContractError(fmt::format("{}: elements for or from rank {}: expected another rank of {}, this one is {}",
                                  to_string(label), peer, communicator.size(), communicator.rank()));
}

}  // namespace

Request redistribute(Communicator& communicator, Purpose purpose, const std::vector<PeerElements<const float>>& sends,
                     const std::vector<PeerElements<float>>& receives, const OperationLabel& label,
                     std::int64_t message) {
  for (const auto& to : sends)
    require_peer(to.peer, communicator, label);
  for (const auto& from : receives)
    require_peer(from.peer, communicator, label);
  Kokkos::fence();  // a kernel may still be writing what is sent (CASES 40)
  return mpi::issue(
      std::make_shared<mpi::Redistribution>(communicator.implementation().channel, purpose, sends, receives, message),
      label);
}

}  // namespace matrixfsdp

#include <algorithm>
#include <array>
#include <cstring>

#include "support/nccl_double/state.hpp"

/// What a launched group does on its stream.
namespace matrixfsdp::nccl_double {
namespace {

/// In front of every message, so that both sides can compare what they mean.
struct Header {
  std::uint32_t kind = 0;
  std::int32_t root = -1;
  std::uint64_t order = 0;  ///< of a collective among the communicator's
  std::uint64_t elements = 0;
  std::int64_t type = 0;

  bool operator==(const Header&) const = default;
  [[nodiscard]] std::string text() const {
    const std::string size = std::to_string(elements) + " elements of type " + std::to_string(type);
    if (kind != Call::broadcast) return size + " by ncclSend";
    return size + " by ncclBroadcast number " + std::to_string(order) + " from " + std::to_string(root);
  }
};

/// One message to or from a peer.
struct Leg {
  bool sends;
  int peer;
  Header header;
  std::byte* data;
  std::uint64_t bytes;
  std::uint64_t moved = 0;
  bool opened = false;
  bool done = false;
};

std::uint64_t bytes_of(ncclDataType_t type) {
  return type == ncclFloat32 ? 4 : type == ncclFloat16 || type == ncclBfloat16 ? 2 : 1;
}

/// usage/p2p: a send ends when its peer has received it: nothing is buffered that a program could rely on.
void send(Leg& leg, Ring& ring) {
  if (!leg.opened) {
    if (ring.room() < sizeof(Header)) return;
    const auto* head = reinterpret_cast<const std::byte*>(&leg.header);
    for (std::uint64_t put = 0; put < sizeof(Header);)
      put += ring.put(head + put, sizeof(Header) - put);
    leg.opened = true;
  }
  while (leg.moved < leg.bytes) {
    const std::uint64_t put = ring.put(leg.data + leg.moved, leg.bytes - leg.moved);
    if (put == 0) return;
    leg.moved += put;
  }
  leg.done = ring.filled() == 0;
}

/// api/p2p: "Rank peer needs to call ncclSend with the same datatype and the same count to this rank." api/colls and
/// usage/collectives: every rank calls the same collectives in the same order, with the same count, datatype and root.
void receive(Leg& leg, Ring& ring, ncclComm& comm) {
  if (!leg.opened) {
    if (ring.filled() < sizeof(Header)) return;
    Header header;
    auto* head = reinterpret_cast<std::byte*>(&header);
    for (std::uint64_t taken = 0; taken < sizeof(Header);)
      taken += ring.take(head + taken, sizeof(Header) - taken);
    leg.opened = true;
    if (header != leg.header) {
      comm.error = misuse("rank " + std::to_string(comm.rank) + " expects " + leg.header.text() + ", rank " +
                          std::to_string(leg.peer) + " sends " + header.text());
      return;
    }
  }
  while (leg.moved < leg.bytes) {
    const std::uint64_t taken = ring.take(leg.data + leg.moved, leg.bytes - leg.moved);
    if (taken == 0) return;
    leg.moved += taken;
  }
  leg.done = true;
}

/// usage/p2p: calls of a group progress independently, except those "targeting the same peer, which are executed in
/// order".
bool run(std::vector<Leg>& legs, ncclComm& comm) {
  if (comm.phase == ncclComm::Phase::gone) return true;  // api/comms: ncclCommAbort ends what is on the device
  if (comm.error != ncclSuccess || device().faults.stuck_groups) return false;
  std::array<std::array<bool, most_ranks>, 2> waiting{};
  bool all = true;
  for (Leg& leg : legs) {
    if (leg.done) continue;
    bool& behind = waiting[leg.sends ? 1 : 0][static_cast<std::size_t>(leg.peer)];
    if (!behind && leg.sends) send(leg, comm.job->ring(comm.rank, leg.peer));
    if (!behind && !leg.sends) receive(leg, comm.job->ring(leg.peer, comm.rank), comm);
    behind = behind || !leg.done;
    all = all && leg.done;
  }
  return all;
}

void add_broadcast(std::vector<Leg>& legs, const Call& call, ncclComm& comm, Leg leg) {
  leg.header.root = call.peer;
  leg.header.order = comm.collectives++;
  leg.sends = call.peer == comm.rank;
  if (!leg.sends) {
    leg.peer = call.peer;
    legs.push_back(leg);
    return;
  }
  leg.data = static_cast<std::byte*>(const_cast<void*>(call.from));
  if (call.to != call.from && leg.bytes > 0) std::memcpy(call.to, call.from, leg.bytes);
  for (leg.peer = 0; leg.peer < comm.size; ++leg.peer) {
    if (leg.peer != comm.rank) legs.push_back(leg);
  }
}

std::vector<Leg> legs_of(ncclComm& comm, const std::vector<Call>& calls) {
  std::vector<Leg> legs;
  for (const Call& call : calls) {
    Leg leg{};
    leg.header = {call.kind == Call::broadcast ? Call::broadcast : Call::send, -1, 0, call.elements, call.type};
    leg.bytes = device().faults.moves_no_data ? 0 : call.elements * bytes_of(call.type);
    leg.data = static_cast<std::byte*>(call.to);
    if (call.kind == Call::broadcast) {
      add_broadcast(legs, call, comm, leg);
      continue;
    }
    leg.sends = call.kind == Call::send;
    leg.peer = call.peer;
    if (leg.sends) leg.data = static_cast<std::byte*>(const_cast<void*>(call.from));
    legs.push_back(leg);
  }
  return legs;
}

}  // namespace

Work group_work(ncclComm& comm, const std::vector<Call>& calls) {
  ++comm.open_groups;
  // What is sent is read when the group runs, not when it is launched.
  const auto legs = std::make_shared<std::vector<Leg>>();
  const auto begun = std::make_shared<bool>(false);
  return {device().draw(6), [&comm, legs, begun, calls] {
            if (!*begun && comm.phase != ncclComm::Phase::gone) *legs = legs_of(comm, calls);
            *begun = true;
            if (!run(*legs, comm)) return false;
            --comm.open_groups;
            return true;
          }};
}

}  // namespace matrixfsdp::nccl_double

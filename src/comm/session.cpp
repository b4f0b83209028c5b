#include <algorithm>
#include <array>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <Kokkos_Core.hpp>
#include <fmt/format.h>

#include <matrixfsdp/comm/mpi.hpp>
#include <matrixfsdp/comm/session.hpp>
#include <matrixfsdp/core/error.hpp>
#include <matrixfsdp/core/log.hpp>

#include "comm/devices.hpp"
#include "comm/ending.hpp"
#include "comm/kokkos_start.hpp"
#include "comm/launcher.hpp"
#include "comm/mpi/check.hpp"

namespace matrixfsdp {
namespace {

const char* name_of_thread_level(int level) {
  if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
  if (level == MPI_THREAD_FUNNELED) return "MPI_THREAD_FUNNELED";
  return level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED" : "MPI_THREAD_MULTIPLE";
}

std::string thread_level_error(int provided) {
  return fmt::format("MPI provides thread level {}: asked for MPI_THREAD_FUNNELED or higher",
                     name_of_thread_level(provided));
}

std::string processor_name() {
  std::array<char, MPI_MAX_PROCESSOR_NAME> name{};
  int length = 0;
  mpi::check(MPI_Get_processor_name(name.data(), &length), "MPI_Get_processor_name");
  return {name.data(), static_cast<std::size_t>(length)};
}

}  // namespace

struct Session::Implementation {
  explicit Implementation(const SessionOptions& session_options) : options(session_options) {}

  /// Ranks of `comm` that share this node's memory.
  void find_neighbours(MPI_Comm comm) {
    MPI_Comm node = MPI_COMM_NULL;
    mpi::check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node), "MPI_Comm_split_type");
    mpi::check(MPI_Comm_rank(node, &local_rank), "MPI_Comm_rank");
    mpi::check(MPI_Comm_size(node, &local_size), "MPI_Comm_size");
    mpi::check(MPI_Comm_free(&node), "MPI_Comm_free");
  }

  void open_world(MPI_Comm comm) {
    world.emplace(mpi::duplicate(comm, options.deadline));
    world->set_deadline(options.deadline);
    nodes = 0;
    for (const int other : all_gather_value(*world, Purpose::other, local_rank, {"start of session", "", ""})) {
      if (other == 0) ++nodes;
    }
  }

  /// Every process that a wrong launcher started believes that it is rank 0, and says so.
  void check_launcher() const {
    if (!options.check_launcher) return;
    int size = 0;
    mpi::check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
    const std::string error = launcher_mismatch(size, [](const char* name) { return std::getenv(name); });
    if (!error.empty()) throw InputError(error);
  }

  /// Ranks that share a device by accident wait for each other in silence: that is told.
  void compare_devices() {
    const std::vector<std::string> device_of_rank = devices_of_ranks(*world, processor_name());
    devices = count_devices(device_of_rank);
    const std::string shared = shared_devices(device_of_rank);
    if (!shared.empty() && world->rank() == 0) log_line(shared);
  }

  void end() noexcept {
    try {
      const int rank = world ? world->rank() : 0;
      if (!meet(options.deadline)) {
        tell_and_abort(fmt::format("rank {}: end of session: not every rank has come within {:.1f} s", rank,
                                   std::chrono::duration<double>(options.deadline).count()));
      }
      world.reset();
      end_kokkos_and_mpi(nodes > 1);
    } catch (const std::exception& error) {
      tell_and_abort(fmt::format("end of session: {}", error.what()));
    }
  }

  SessionOptions options;
  std::optional<Communicator> world;
  int local_rank = 0;
  int local_size = 1;
  int nodes = 1;
  int devices = 0;  // of all ranks; 0 where kernels run on the host
  bool owns = false;
  int exceptions = std::uncaught_exceptions();
};

Session::Session(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Session::Session(Session&&) noexcept = default;

Session::~Session() {
  if (!implementation_ || !implementation_->owns) return;
  if (std::uncaught_exceptions() > implementation_->exceptions) return;
  implementation_->end();
}

Session Session::start(int& argc, char**& argv, const SessionOptions& options) {
  int initialized = 0;
  mpi::check(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized != 0 || Kokkos::is_initialized()) {
    throw ContractError(
        fmt::format("Session::start: {} is already running: expected Session::adopt, or neither MPI nor "
                    "Kokkos started before",
                    initialized != 0 ? "MPI" : "Kokkos"));
  }
  int provided = MPI_THREAD_SINGLE;
  mpi::check(MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  mpi::check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  if (provided < MPI_THREAD_FUNNELED) throw CommunicationError(thread_level_error(provided));

  // From here on run_main knows the rank, so that one line is told.
  if (options.threads < 1) throw InputError(fmt::format("{} threads: expected at least 1", options.threads));
  auto implementation = std::make_unique<Implementation>(options);
  implementation->check_launcher();
  implementation->find_neighbours(MPI_COMM_WORLD);
  start_kokkos(options.threads, implementation->local_rank);
  implementation->open_world(MPI_COMM_WORLD);
  implementation->compare_devices();
  implementation->owns = true;
  return Session(std::move(implementation));
}

Session Session::adopt(MPI_Comm comm, const SessionOptions& options) {
  if (!mpi::running()) throw ContractError("Session::adopt: MPI is not running: expected MPI_Init_thread before");
  if (!Kokkos::is_initialized()) {
    throw ContractError("Session::adopt: Kokkos is not running: expected Kokkos::initialize before");
  }
  int provided = MPI_THREAD_SINGLE;
  mpi::check(MPI_Query_thread(&provided), "MPI_Query_thread");
  if (provided < MPI_THREAD_FUNNELED) throw ContractError("Session::adopt: " + thread_level_error(provided));

  auto implementation = std::make_unique<Implementation>(options);
  implementation->find_neighbours(comm);
  implementation->open_world(comm);
  implementation->compare_devices();
  return Session(std::move(implementation));
}

Communicator& Session::world() {
  return *implementation_->world;
}
int Session::local_rank() const {
  return implementation_->local_rank;
}
int Session::local_size() const {
  return implementation_->local_size;
}
int Session::nodes() const {
  return implementation_->nodes;
}

std::string Session::description() const {
  const int size = implementation_->world->size();
  const int devices = implementation_->devices;
  const std::string on_devices =
      devices == 0 ? "" : fmt::format("{} {}, ", devices, devices == 1 ? "device" : "devices");
  return fmt::format("{} {} on {} {}, {}{}, {} {} each, {}", size, size == 1 ? "rank" : "ranks", nodes(),
                     nodes() == 1 ? "node" : "nodes", on_devices, kokkos_description(),
                     implementation_->options.threads, implementation_->options.threads == 1 ? "thread" : "threads",
                     mpi::library_description());
}

}  // namespace matrixfsdp

#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <mpi.h>

#include <matrixfsdp/comm/communicator.hpp>

namespace matrixfsdp {

/// What Session::start and Session::adopt are told.
struct SessionOptions {
  int threads = 1;  ///< of Kokkos' host execution space, >= 1; adopt only names them
  std::chrono::milliseconds deadline = std::chrono::seconds(300);  ///< of start, end, and every wait of world()
  bool check_launcher = true;  ///< of start: compare the world size with what Slurm says (spack#11925)
};

/// Start and end of MPI and Kokkos, in that order and back. The only place with blocking MPI calls. One per process.
class Session {
 public:
  /// MPI_Init_thread (asks for MPI_THREAD_MULTIPLE), then Kokkos with the device of the local rank; ranks that share a
  /// device are named in a line of rank 0 (also by adopt). Collective over all processes of the job. Throws
  /// ContractError where MPI or Kokkos is already running; CommunicationError where MPI provides less than
  /// MPI_THREAD_FUNNELED (both levels), MPI fails, or not every rank comes within the deadline; InputError for threads
  /// < 1, for a device backend of Kokkos without a visible device, and when SLURM_NTASKS (inside an srun step:
  /// SLURM_STEP_NUM_TASKS) says more tasks than MPI has ranks: a wrong PMI makes every process rank 0 of 1.
  static Session start(int& argc, char**& argv, const SessionOptions& options = {});

  /// MPI and Kokkos are the caller's, and nothing is ended. `comm`, a valid communicator (unchecked), is duplicated.
  /// Collective over `comm`. Throws ContractError where MPI or Kokkos is not running, or MPI provides less than
  /// MPI_THREAD_FUNNELED; CommunicationError where MPI fails, or not every rank comes within the deadline.
  static Session adopt(MPI_Comm comm, const SessionOptions& options = {});

  Session(Session&&) noexcept;  ///< the other ends nothing
  Session& operator=(Session&&) = delete;
  /// Ends what start began: waits for all ranks with the deadline, then Kokkos, then MPI. While an exception unwinds it
  /// calls no collective and ends nothing: `main` aborts (run_main).
  ~Session();

  /// All ranks of the job, or of the communicator that was adopted. Lives as long as the session.
  Communicator& world();
  [[nodiscard]] int local_rank() const;  ///< within the node
  [[nodiscard]] int local_size() const;  ///< ranks on this rank's node
  [[nodiscard]] int nodes() const;       ///< on which world() has ranks
  /// "4 ranks on 1 node, Kokkos Serial, MPI ..." for the log and --version; on devices "4 ranks on 1 node, 4 devices,
  /// ...".
  [[nodiscard]] std::string description() const;

 private:
  struct Implementation;
  explicit Session(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

/// Exit codes of all programs (mfsdp-train has one more, 75: to be continued).
/// @{
inline constexpr int exit_ok = 0;         ///< done; of comparing programs: the same, or valid
inline constexpr int exit_different = 1;  ///< of comparing programs: different, or not valid
inline constexpr int exit_error = 2;      ///< bad input, or a failure: a line on standard error tells
/// @}

/// The only catch of a program: runs `body` and turns exceptions into one line on standard error and an exit code.
/// InputError is thrown by all ranks alike (agree_on_input): rank 0 prints, everybody ends in an orderly way, 2. Any
/// other exception: the rank that has it prints "rank R: ...", and MPI_Abort(2) ends the job.
int run_main(const std::function<int()>& body);

}  // namespace matrixfsdp

#include "support/pmpi_bytes.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <mpi.h>

// One definition for each MPI call that can carry payload to another rank; everything else goes straight to MPI.
namespace {

struct Counts {
  std::mutex mutex;
  long long bytes = 0;
  long long sends = 0;
  const char* watched = nullptr;
  long long watched_bytes = 0;
  long long watched_calls = 0;
  const void* held = nullptr;
  MPI_Request held_request = MPI_REQUEST_NULL;
  long long tests_to_hold = 0;
  long long sent_while_held = 0;
  std::set<std::string> other_calls;
  std::string joined;
};

Counts& counts() {
  static Counts instance;
  return instance;
}

void count_send(MPI_Count count, MPI_Datatype type, int destination, MPI_Comm comm) {
  if (destination == MPI_PROC_NULL) return;
  int between_groups = 0;
  int own = MPI_PROC_NULL;
  PMPI_Comm_test_inter(comm, &between_groups);
  PMPI_Comm_rank(comm, &own);
  if (between_groups == 0 && destination == own) return;
  MPI_Count size = 0;
  PMPI_Type_size_x(type, &size);
  const std::lock_guard lock(counts().mutex);
  counts().bytes += static_cast<long long>(count) * static_cast<long long>(size);
  ++counts().sends;
}

void watch(const void* data) {
  const std::lock_guard lock(counts().mutex);
  const auto* byte = static_cast<const char*>(data);
  const bool inside =
      std::greater_equal<>()(byte, counts().watched) && std::less<>()(byte, counts().watched + counts().watched_bytes);
  counts().watched_calls += inside ? 1 : 0;
}

void note_send(const void* data) {
  watch(data);
  const std::lock_guard lock(counts().mutex);
  counts().sent_while_held += data == counts().held && counts().tests_to_hold > 0 ? 1 : 0;
}

/// Of `requests` the one that is held, once more; nullptr: none.
MPI_Request* take_held(int count, MPI_Request* requests) {
  const std::lock_guard lock(counts().mutex);
  if (counts().tests_to_hold == 0 || counts().held_request == MPI_REQUEST_NULL) return nullptr;
  MPI_Request* held = std::find(requests, requests + count, counts().held_request);
  if (held == requests + count) return nullptr;
  --counts().tests_to_hold;
  return held;
}

void record(const char* call) {
  const std::lock_guard lock(counts().mutex);
  counts().other_calls.insert(call);
}

void write_file() {
  const char* path = std::getenv("MATRIXFSDP_PMPI_FILE");
  if (path == nullptr) return;
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::FILE* file = std::fopen((std::string(path) + "." + std::to_string(rank)).c_str(), "w");
  if (file == nullptr) {
    std::perror("MATRIXFSDP_PMPI_FILE");
    return;
  }
  const char* others = matrixfsdp_pmpi_other_calls();
  std::fprintf(file, "%d %lld %lld%s%s\n", rank, counts().bytes, counts().sends, *others == '\0' ? "" : " ", others);
  std::fclose(file);
}

}  // namespace

extern "C" {

long long matrixfsdp_pmpi_bytes() {
  return counts().bytes;
}

void matrixfsdp_pmpi_watch(const void* begin, long long bytes) {
  const std::lock_guard lock(counts().mutex);
  counts().watched = static_cast<const char*>(begin);
  counts().watched_bytes = bytes;
  counts().watched_calls = 0;
}

long long matrixfsdp_pmpi_watched_calls() {
  const std::lock_guard lock(counts().mutex);
  return counts().watched_calls;
}

void matrixfsdp_pmpi_hold(const void* data, long long tests) {
  const std::lock_guard lock(counts().mutex);
  counts().held = data;
  counts().held_request = MPI_REQUEST_NULL;
  counts().tests_to_hold = tests;
  counts().sent_while_held = 0;
}

long long matrixfsdp_pmpi_sent_while_held() {
  const std::lock_guard lock(counts().mutex);
  return counts().sent_while_held;
}

long long matrixfsdp_pmpi_left_to_hold() {
  const std::lock_guard lock(counts().mutex);
  return counts().tests_to_hold;
}

const char* matrixfsdp_pmpi_other_calls() {
  const std::lock_guard lock(counts().mutex);
  counts().joined.clear();
  for (const std::string& call : counts().other_calls)
    counts().joined += (counts().joined.empty() ? "" : " ") + call;
  return counts().joined.c_str();
}

int MPI_Irecv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Request* request) {
  watch(data);
  const int code = PMPI_Irecv(data, count, type, source, tag, comm, request);
  const std::lock_guard lock(counts().mutex);
  if (data == counts().held && counts().tests_to_hold > 0) counts().held_request = *request;
  return code;
}

int MPI_Testsome(int count, MPI_Request* requests, int* done, int* indices, MPI_Status* statuses) {
  MPI_Request* held = take_held(count, requests);
  if (held == nullptr) return PMPI_Testsome(count, requests, done, indices, statuses);
  const MPI_Request request = std::exchange(*held, MPI_REQUEST_NULL);
  const int code = PMPI_Testsome(count, requests, done, indices, statuses);
  *held = request;
  if (*done == MPI_UNDEFINED) *done = 0;
  return code;
}

int MPI_Finalize() {
  write_file();
  return PMPI_Finalize();
}

#define COUNT_SEND(NAME, COUNT)                                                                               \
  int MPI_##NAME(const void* data, COUNT count, MPI_Datatype type, int destination, int tag, MPI_Comm comm) { \
    count_send(count, type, destination, comm);                                                               \
    return PMPI_##NAME(data, count, type, destination, tag, comm);                                            \
  }
#define COUNT_ISEND(NAME, COUNT)                                                                            \
  int MPI_##NAME(const void* data, COUNT count, MPI_Datatype type, int destination, int tag, MPI_Comm comm, \
                 MPI_Request* request) {                                                                    \
    count_send(count, type, destination, comm);                                                             \
    note_send(data);                                                                                        \
    return PMPI_##NAME(data, count, type, destination, tag, comm, request);                                 \
  }
#define RECORD(NAME, PARAMETERS, ARGUMENTS) \
  int MPI_##NAME PARAMETERS {               \
    record("MPI_" #NAME);                   \
    return PMPI_##NAME ARGUMENTS;           \
  }
#define RECORD_SEND_INIT(NAME, COUNT)                                                              \
  RECORD(NAME, (const void* a, COUNT b, MPI_Datatype c, int d, int e, MPI_Comm f, MPI_Request* g), \
         (a, b, c, d, e, f, g))

// C: suffix of the name, N: type of a count, D: type of a displacement.
#define POINT_TO_POINT(C, N)                                                                                         \
  COUNT_SEND(Send##C, N)                                                                                             \
  COUNT_SEND(Bsend##C, N)                                                                                            \
  COUNT_SEND(Rsend##C, N)                                                                                            \
  COUNT_SEND(Ssend##C, N)                                                                                            \
  COUNT_ISEND(Isend##C, N)                                                                                           \
  COUNT_ISEND(Ibsend##C, N)                                                                                          \
  COUNT_ISEND(Irsend##C, N)                                                                                          \
  COUNT_ISEND(Issend##C, N)                                                                                          \
  RECORD_SEND_INIT(Send_init##C, N)                                                                                  \
  RECORD_SEND_INIT(Bsend_init##C, N)                                                                                 \
  RECORD_SEND_INIT(Rsend_init##C, N)                                                                                 \
  RECORD_SEND_INIT(Ssend_init##C, N)                                                                                 \
  int MPI_Sendrecv##C(const void* a, N b, MPI_Datatype c, int d, int e, void* f, N g, MPI_Datatype h, int i, int j,  \
                      MPI_Comm k, MPI_Status* l) {                                                                   \
    count_send(b, c, d, k);                                                                                          \
    return PMPI_Sendrecv##C(a, b, c, d, e, f, g, h, i, j, k, l);                                                     \
  }                                                                                                                  \
  int MPI_Sendrecv_replace##C(void* a, N b, MPI_Datatype c, int d, int e, int f, int g, MPI_Comm h, MPI_Status* i) { \
    count_send(b, c, d, h);                                                                                          \
    return PMPI_Sendrecv_replace##C(a, b, c, d, e, f, g, h, i);                                                      \
  }

// X and Y: the request of a non-blocking call as parameter and as argument; nothing for a blocking one.
#define REQUEST_PARAMETER , MPI_Request* request
#define REQUEST_ARGUMENT , request
#define ROOTED(NAME, N, X, Y)                                                                           \
  RECORD(NAME, (const void* a, N b, MPI_Datatype c, void* d, N e, MPI_Datatype f, int g, MPI_Comm h X), \
         (a, b, c, d, e, f, g, h Y))
#define UNROOTED(NAME, N, X, Y)                                                                  \
  RECORD(NAME, (const void* a, N b, MPI_Datatype c, void* d, N e, MPI_Datatype f, MPI_Comm g X), \
         (a, b, c, d, e, f, g Y))
#define GATHERV(NAME, N, D, X, Y)                                                                                      \
  RECORD(NAME,                                                                                                         \
         (const void* a, N b, MPI_Datatype c, void* d, const N e[], const D f[], MPI_Datatype g, int h, MPI_Comm i X), \
         (a, b, c, d, e, f, g, h, i Y))
#define SCATTERV(NAME, N, D, X, Y)                                                                                     \
  RECORD(NAME,                                                                                                         \
         (const void* a, const N b[], const D c[], MPI_Datatype d, void* e, N f, MPI_Datatype g, int h, MPI_Comm i X), \
         (a, b, c, d, e, f, g, h, i Y))
#define ALLGATHERV(NAME, N, D, X, Y)                                                                    \
  int MPI_##NAME(const void* a, N b, MPI_Datatype c, void* d, const N e[], const D f[], MPI_Datatype g, \
                 MPI_Comm h X) {                                                                        \
    record("MPI_" #NAME);                                                                               \
    watch(d);                                                                                           \
    return PMPI_##NAME(a, b, c, d, e, f, g, h Y);                                                       \
  }
#define ALLTOALLV(NAME, N, D, X, Y)                                                                                   \
  RECORD(NAME,                                                                                                        \
         (const void* a, const N b[], const D c[], MPI_Datatype d, void* e, const N f[], const D g[], MPI_Datatype h, \
          MPI_Comm i X),                                                                                              \
         (a, b, c, d, e, f, g, h, i Y))
#define ALLTOALLW(NAME, N, D, X, Y)                                                                           \
  RECORD(NAME,                                                                                                \
         (const void* a, const N b[], const D c[], const MPI_Datatype d[], void* e, const N f[], const D g[], \
          const MPI_Datatype h[], MPI_Comm i X),                                                              \
         (a, b, c, d, e, f, g, h, i Y))
#define REDUCTION(NAME, N, X, Y) \
  RECORD(NAME, (const void* a, void* b, N c, MPI_Datatype d, MPI_Op e, MPI_Comm f X), (a, b, c, d, e, f Y))
#define ROOTED_REDUCTION(NAME, N, X, Y) \
  RECORD(NAME, (const void* a, void* b, N c, MPI_Datatype d, MPI_Op e, int f, MPI_Comm g X), (a, b, c, d, e, f, g Y))
#define REDUCE_SCATTER(NAME, N, X, Y) \
  RECORD(NAME, (const void* a, void* b, const N c[], MPI_Datatype d, MPI_Op e, MPI_Comm f X), (a, b, c, d, e, f Y))
#define BROADCAST(NAME, N, X, Y) RECORD(NAME, (void* a, N b, MPI_Datatype c, int d, MPI_Comm e X), (a, b, c, d, e Y))

#define BLOCKING_COLLECTIVES(C, N, D)               \
  BROADCAST(Bcast##C, N, , )                        \
  ROOTED(Gather##C, N, , )                          \
  ROOTED(Scatter##C, N, , )                         \
  UNROOTED(Allgather##C, N, , )                     \
  UNROOTED(Alltoall##C, N, , )                      \
  UNROOTED(Neighbor_allgather##C, N, , )            \
  UNROOTED(Neighbor_alltoall##C, N, , )             \
  GATHERV(Gatherv##C, N, D, , )                     \
  SCATTERV(Scatterv##C, N, D, , )                   \
  ALLGATHERV(Allgatherv##C, N, D, , )               \
  ALLGATHERV(Neighbor_allgatherv##C, N, D, , )      \
  ALLTOALLV(Alltoallv##C, N, D, , )                 \
  ALLTOALLV(Neighbor_alltoallv##C, N, D, , )        \
  ALLTOALLW(Alltoallw##C, N, D, , )                 \
  ALLTOALLW(Neighbor_alltoallw##C, N, MPI_Aint, , ) \
  REDUCTION(Allreduce##C, N, , )                    \
  REDUCTION(Scan##C, N, , )                         \
  REDUCTION(Exscan##C, N, , )                       \
  REDUCTION(Reduce_scatter_block##C, N, , )         \
  ROOTED_REDUCTION(Reduce##C, N, , )                \
  REDUCE_SCATTER(Reduce_scatter##C, N, , )

#define NON_BLOCKING_COLLECTIVES(C, N, D)                                             \
  BROADCAST(Ibcast##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                        \
  ROOTED(Igather##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                          \
  ROOTED(Iscatter##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                         \
  UNROOTED(Iallgather##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                     \
  UNROOTED(Ialltoall##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                      \
  UNROOTED(Ineighbor_allgather##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)            \
  UNROOTED(Ineighbor_alltoall##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)             \
  GATHERV(Igatherv##C, N, D, REQUEST_PARAMETER, REQUEST_ARGUMENT)                     \
  SCATTERV(Iscatterv##C, N, D, REQUEST_PARAMETER, REQUEST_ARGUMENT)                   \
  ALLGATHERV(Iallgatherv##C, N, D, REQUEST_PARAMETER, REQUEST_ARGUMENT)               \
  ALLGATHERV(Ineighbor_allgatherv##C, N, D, REQUEST_PARAMETER, REQUEST_ARGUMENT)      \
  ALLTOALLV(Ialltoallv##C, N, D, REQUEST_PARAMETER, REQUEST_ARGUMENT)                 \
  ALLTOALLV(Ineighbor_alltoallv##C, N, D, REQUEST_PARAMETER, REQUEST_ARGUMENT)        \
  ALLTOALLW(Ialltoallw##C, N, D, REQUEST_PARAMETER, REQUEST_ARGUMENT)                 \
  ALLTOALLW(Ineighbor_alltoallw##C, N, MPI_Aint, REQUEST_PARAMETER, REQUEST_ARGUMENT) \
  REDUCTION(Iallreduce##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                    \
  REDUCTION(Iscan##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                         \
  REDUCTION(Iexscan##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                       \
  REDUCTION(Ireduce_scatter_block##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)         \
  ROOTED_REDUCTION(Ireduce##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)                \
  REDUCE_SCATTER(Ireduce_scatter##C, N, REQUEST_PARAMETER, REQUEST_ARGUMENT)

#define ONE_SIDED(C, N)                                                                                              \
  RECORD(Put##C, (const void* a, N b, MPI_Datatype c, int d, MPI_Aint e, N f, MPI_Datatype g, MPI_Win h),            \
         (a, b, c, d, e, f, g, h))                                                                                   \
  RECORD(Get##C, (void* a, N b, MPI_Datatype c, int d, MPI_Aint e, N f, MPI_Datatype g, MPI_Win h),                  \
         (a, b, c, d, e, f, g, h))                                                                                   \
  RECORD(Accumulate##C,                                                                                              \
         (const void* a, N b, MPI_Datatype c, int d, MPI_Aint e, N f, MPI_Datatype g, MPI_Op h, MPI_Win i),          \
         (a, b, c, d, e, f, g, h, i))                                                                                \
  RECORD(Rput##C,                                                                                                    \
         (const void* a, N b, MPI_Datatype c, int d, MPI_Aint e, N f, MPI_Datatype g, MPI_Win h, MPI_Request* i),    \
         (a, b, c, d, e, f, g, h, i))                                                                                \
  RECORD(Rget##C, (void* a, N b, MPI_Datatype c, int d, MPI_Aint e, N f, MPI_Datatype g, MPI_Win h, MPI_Request* i), \
         (a, b, c, d, e, f, g, h, i))

POINT_TO_POINT(, int)
BLOCKING_COLLECTIVES(, int, int)
NON_BLOCKING_COLLECTIVES(, int, int)
ONE_SIDED(, int)
#if MPI_VERSION >= 4
POINT_TO_POINT(_c, MPI_Count)
BLOCKING_COLLECTIVES(_c, MPI_Count, MPI_Aint)
NON_BLOCKING_COLLECTIVES(_c, MPI_Count, MPI_Aint)
ONE_SIDED(_c, MPI_Count)
RECORD(Psend_init,
       (const void* a, int b, MPI_Count c, MPI_Datatype d, int e, int f, MPI_Comm g, MPI_Info h, MPI_Request* i),
       (a, b, c, d, e, f, g, h, i))
#endif
}

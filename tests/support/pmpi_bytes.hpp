#pragma once

/// An independent count of what this process hands to MPI: a PMPI interposer that shares no code with the library. Link
/// it before MPI, or preload libmatrixfsdp_pmpi_bytes.so. At MPI_Finalize it appends ".<rank>" to the path in
/// MATRIXFSDP_PMPI_FILE, and writes one line there: "<rank> <bytes> <sends>", followed by the names of calls that carry
/// payload in a way that it does not count (collectives, one-sided, persistent).
extern "C" {

/// Payload bytes of all sends to other ranks so far.
long long matrixfsdp_pmpi_bytes();
/// From now on, whether a non-blocking send or receive, or a gather of unequal parts, is given an address in [begin,
/// begin + bytes).
void matrixfsdp_pmpi_watch(const void* begin, long long bytes);
/// Calls that were, since then.
long long matrixfsdp_pmpi_watched_calls();
/// From now on MPI_Testsome reports a receive into `data` as incomplete that often, whatever came.
void matrixfsdp_pmpi_hold(const void* data, long long tests);
/// Non-blocking sends from `data` meanwhile, and how often a receive was still to be reported as incomplete.
long long matrixfsdp_pmpi_sent_while_held();
long long matrixfsdp_pmpi_left_to_hold();
/// Names of calls that are not counted, separated by spaces; empty if there were none.
const char* matrixfsdp_pmpi_other_calls();
}

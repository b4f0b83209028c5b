#pragma once

/// An independent count of what this process hands to MPI: a PMPI interposer that shares no code with the library. Link
/// it before MPI, or preload libmatrixfsdp_pmpi_bytes.so. At MPI_Finalize it appends ".<rank>" to the path in
/// MATRIXFSDP_PMPI_FILE, and writes one line there: "<rank> <bytes> <sends>", followed by the names of calls that carry
/// payload in a way that it does not count (collectives, one-sided, persistent).
extern "C" {

/// Payload bytes of all sends to other ranks so far.
long long matrixfsdp_pmpi_bytes();
/// Names of calls that are not counted, separated by spaces; empty if there were none.
const char* matrixfsdp_pmpi_other_calls();
}

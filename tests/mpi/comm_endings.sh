#!/usr/bin/env bash
# How a job ends: comm_endings.sh <way> <mpiexec> <flag for the number of ranks> <failing_rank> <interposer>
set -uo pipefail
way=$1 mpiexec=$2 flag=$3 program=$4 interposer=$5
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "$way: $1 (exit code $code)"
  sed 's/^/stdout: /' "$folder/out"
  sed 's/^/stderr: /' "$folder/err"
  exit 1
}

# run <seconds> <command>...: sets code.
run() {
  local begin=$SECONDS
  timeout --kill-after=5 "$@" >"$folder/out" 2>"$folder/err"
  code=$?
  [ $((SECONDS - begin)) -lt "$1" ] || fail "the job did not end within $1 s"
}
job() { run 40 "$mpiexec" "$flag" 3 "$@"; }
expect_code() { [ "$code" -eq "$1" ] || fail "expected exit code $1"; }
expect_failure() { [ "$code" -ne 0 ] || fail "expected a failure"; }
expect_line() { grep -Eq -- "$1" "$folder/err" || fail "expected on standard error: $1"; }
expect_count() { [ "$(grep -c "$2" "$folder/err")" -eq "$1" ] || fail "expected $1 lines with: $2"; }

case $way in
  ok)
    job "$program" ok
    expect_code 0
    grep -q '^3 ranks on' "$folder/out" || fail "expected the description"
    ;;
  different) # exit codes of a body are the program's
    job "$program" different
    expect_code 1
    ;;
  throw)
    job "$program" throw
    expect_failure
    expect_line 'rank 2: the loss has no bits$'
    ;;
  unknown)
    job "$program" unknown
    expect_failure
    expect_line 'rank 2: an exception of unknown type$'
    ;;
  stop) # a frozen rank ends the job within the deadline
    job "$program" stop
    expect_failure
    expect_line 'rank [01]: unshard of unit block.0 \(forward\), sequence [0-9]+: not complete after 2\.[0-9] s'
    ;;
  kill)
    job "$program" kill
    expect_failure
    ;;
  leave) # a rank ends its session while the others go on
    job "$program" leave
    expect_failure
    expect_line 'rank [012]: .*(not complete after|not every rank has come within) 2\.[0-9] s'
    ;;
  input) # one line, and an orderly end
    job "$program" input
    expect_code 2
    expect_count 1 'no such file: 1$'
    expect_count 0 'no such file: 2'
    # Open MPI's launcher calls any code but 0 an aborted job; both libraries name the call where there was one.
    ! grep -qiE 'MPI_Abort|bad termination' "$folder/out" "$folder/err" || fail "expected no abort"
    ;;
  pending) # the same while messages are under way
    job "$program" pending
    expect_code 2
    expect_count 1 'while a prefetch is under way'
    ;;
  alone) # an InputError that the others do not have still ends the job, and is told
    job "$program" alone
    expect_failure
    expect_line 'rank [012]: '
    ;;
  launcher) # CASES 66
    run 40 env SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=0 "$program" ok
    expect_code 2
    expect_count 1 'world size 1: SLURM_NTASKS says 4 tasks'
    ;;
  adopt)
    job "$program" adopt
    expect_code 0
    grep -q '^3 ranks are alive$' "$folder/out" || fail "expected that MPI and Kokkos stay alive"
    ;;
  bytes) # the library's count against the preloaded interposer's
    job env LD_PRELOAD="$interposer" MATRIXFSDP_PMPI_FILE="$folder/mpi" "$program" bytes "$folder/library"
    expect_code 0
    for rank in 0 1 2; do
      read -r _ library <"$folder/library.$rank" || fail "no count of the library"
      read -r _ interposer _ others <"$folder/mpi.$rank" || fail "no count of the interposer"
      [ "$library" -gt 0 ] && [ "$library" -eq "$interposer" ] ||
        fail "rank $rank: the library counts $library bytes, the interposer $interposer"
      [ -z "$others" ] || fail "rank $rank: calls that carry payload uncounted: $others"
    done
    ;;
  *) code=0 && fail "unknown way" ;;
esac

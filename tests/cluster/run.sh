#!/usr/bin/env bash
# An emulated cluster for the time of one MPI job. All of it lives in namespaces of its own (network, mounts,
# processes), none of it in the caller's. So no run can meet the names or addresses of another, and nothing can outlive
# a run: however this script ends, the kernel ends the processes, and the links with the last of them.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'END'
Usage: run.sh [OPTION]... -- PROGRAM [ARGUMENT]...
       run.sh [OPTION]... --check

Runs PROGRAM under mpiexec on an emulated cluster of this machine: every node is a network namespace (eth0) with a host
name and shared memory of its own, and all nodes meet in one switch. Ranks of a node share memory, other ranks TCP.
Ranks are numbered node by node. Afterwards nothing is left, whatever happens to the program or to this script.

  --nodes N          nodes, 1 to 200 (default 2)
  --ranks R          ranks on each node (default 1)
  --rate RATE        of each node's link, in each direction: 200mbit, 1gbit, ... (default 200mbit; "none": no limit)
  --latency TIME     on the way from one node to another: 100us, 2ms, ... (default 0us: none added). Needs netem
                     (CONFIG_NET_SCH_NETEM) in the kernel
  --timeout SECONDS  longest time for the program (default 300)
  --statistics       print tc's statistics of every link on standard error at the end
  --mpiexec PATH     an mpiexec of MPICH (hydra; default mpiexec)
  --check            only tell whether this machine can do it, with the other options
  --help             this text

Exit code: the program's; 124 after the time-out; 2 for bad options; 77 with a message where a tool is missing or the
kernel does not allow it. The program has the caller's environment and folder, no standard input, and no other network.

Example: OPENBLAS_NUM_THREADS=1 run.sh --nodes 8 --rate 200mbit -- build/bin/mfsdp-bench collectives
END
}

bad() {
  echo "run.sh: $1" >&2
  exit 2
}
cannot() {
  echo "run.sh: no emulated cluster here: $1" >&2
  exit 77
}
# number <option> <value> <most>
number() {
  if ! [[ $2 =~ ^[1-9][0-9]{0,5}$ ]] || (($2 > $3)); then bad "$1 $2: expected a whole number from 1 to $3"; fi
}

nodes=2 ranks=1 rate=200mbit latency=0us seconds=300 statistics=no mpiexec=mpiexec
only_check=no
while (($#)); do
  case $1 in
    --nodes | --ranks | --rate | --latency | --timeout | --mpiexec)
      (($# > 1)) || bad "$1: expected a value after it"
      case $1 in
        --nodes) number "$1" "$2" 200 && nodes=$2 ;;
        --ranks) number "$1" "$2" 1000 && ranks=$2 ;;
        --rate)
          [[ $2 =~ ^(none|[1-9][0-9]*[kmg]bit)$ ]] ||
            bad "--rate $2: expected a number with kbit, mbit or gbit, or none"
          rate=$2
          ;;
        --latency)
          [[ $2 =~ ^(0us|[1-9][0-9]*(us|ms))$ ]] || bad "--latency $2: expected a number with us or ms"
          latency=$2
          ;;
        --timeout) number "$1" "$2" 100000 && seconds=$2 ;;
        --mpiexec) mpiexec=$2 ;;
      esac
      shift 2
      ;;
    --statistics) statistics=yes && shift ;;
    --check) only_check=yes && shift ;;
    --help) usage && exit 0 ;;
    --) shift && break ;;
    *) bad "option $1: expected one of --help's, and -- before the program" ;;
  esac
done
if [ "$only_check" = yes ]; then
  set -- true
elif (($# == 0)); then
  bad "no program: expected -- PROGRAM after the options"
elif ! command -v "$1" >/dev/null; then
  bad "program $1: expected an executable file"
fi

for tool in ip tc unshare nsenter setpriv timeout "$mpiexec"; do
  command -v "$tool" >/dev/null || cannot "$tool is missing (Debian: iproute2, util-linux, coreutils, mpich)"
done
[[ $("$mpiexec" --version 2>&1) == *HYDRA* ]] || cannot "$mpiexec: expected MPICH's (hydra)"

# Their processes end with the first one, and that one with this script, kill -9 included.
outer=(setpriv --pdeathsig KILL unshare --net --mount --pid --mount-proc --fork --kill-child)
[ "$(id -u)" -eq 0 ] || outer+=(--user --map-root-user)
reason=$("${outer[@]}" true 2>&1) || cannot "${reason##*$'\n'}"

# Ends unshare, thereby its child, the first process, which is gone when all the others are.
# shellcheck disable=SC2317
end() {
  [ -n "$job" ] || return
  local first=0 state
  read -r first <"/proc/$job/task/$job/children"
  kill -KILL "$job"
  wait "$job"
  while read -r _ _ state _ <"/proc/$first/stat" && [ "$state" != Z ]; do sleep 0.01; done
} 2>/dev/null
job=
trap end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
"${outer[@]}" bash "$here/nodes.sh" "$nodes" "$ranks" "$rate" "$latency" "$seconds" "$statistics" "$mpiexec" "$@" &
job=$!
wait "$job"
code=$?
job=
[ "$only_check" = no ] || ((code)) || echo "run.sh: this machine can run an emulated cluster"
exit "$code"

#!/usr/bin/env bash
# The emulated cluster from end to end: smoke.sh <mpiexec> <cluster_probe>. Exit code 77: not possible here.
set -uo pipefail
run=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/run.sh
mpiexec=$1 probe=$2

bash "$run" --mpiexec "$mpiexec" --check || exit
# In namespaces of its own, so that what others do on this machine meanwhile is not taken for something left behind.
if [ -z "${MATRIXFSDP_SMOKE_FOLDER:-}" ]; then
  MATRIXFSDP_SMOKE_FOLDER=$(mktemp -d)
  export MATRIXFSDP_SMOKE_FOLDER
  trap 'rm -rf "$MATRIXFSDP_SMOKE_FOLDER"' EXIT
  own=(unshare --net --mount)
  [ "$(id -u)" -eq 0 ] || own+=(--user --map-root-user)
  "${own[@]}" bash "$0" "$@"
  exit
fi
folder=$MATRIXFSDP_SMOKE_FOLDER
script=
trap '[ -z "$script" ] || kill "$script" 2>/dev/null' EXIT
mkdir "$folder/tmp"
export TMPDIR=$folder/tmp
mount -t tmpfs tmpfs /dev/shm || exit 1

fail() {
  echo "FAILED: $1"
  sed 's/^/  output: /' "$folder/out"
  exit 1
}
cluster=(env "SMOKE_MARK=$folder" bash "$run" --mpiexec "$mpiexec")
# expect <code> <option>...
expect() {
  "${cluster[@]}" "${@:2}" >"$folder/out" 2>&1
  local code=$?
  [ "$code" -eq "$1" ] || fail "exit code $code of ${*:2}: expected $1"
}
expect_output() { grep -Eq -- "$1" "$folder/out" || fail "expected in the output: $1"; }

# Links, mounts, named namespaces, files of shared memory and temporary ones, as they are now.
surroundings() {
  ip -brief link show | cut -d' ' -f1
  cut -d' ' -f2 /proc/self/mounts
  ip netns list
  find /dev/shm "$TMPDIR"
}
processes() { grep -lzsxF "SMOKE_MARK=$folder" /proc/[0-9]*/environ; }
surroundings >"$folder/before"
expect_nothing_left() { # of a run that has ended <how>
  for ((i = 0; i < 100; ++i)); do # a killed process takes a moment to go
    [ -n "$(processes)" ] || break
    sleep 0.1
  done
  processes >"$folder/out"
  [ ! -s "$folder/out" ] || fail "processes are left after $1"
  surroundings | diff "$folder/before" - >"$folder/out" || fail "something is left after $1"
}

begin() { # a job that lasts, in the background: sets script
  rm -f "$folder/started"
  "${cluster[@]}" -- sh -c "echo >$folder/started; exec sleep 300" >"$folder/out" 2>&1 &
  script=$!
  for ((i = 0; i < 200; ++i)); do
    [ ! -e "$folder/started" ] || break
    sleep 0.1
  done
  processes >"$folder/seen"
  [ "$(wc -l <"$folder/seen")" -ge 4 ] || fail "the processes of a job are not seen"
}

echo "layout, values, bytes and rate"
# Of three nodes two send to the third at once, so that every link has something to hold back.
expect 0 --nodes 3 --ranks 2 --rate 200mbit --statistics -- "$probe" 3 2 2e8 0
cat "$folder/out"
for link in 'from node0' 'from node1' 'from node2' 'to node0' 'to node1' 'to node2'; do
  expect_output "^$link: qdisc tbf .*rate 200Mbit"
  expect_output "^$link:  Sent [0-9]{7,} bytes .*overlimits [1-9]"
done
expect_nothing_left "success"
# shellcheck disable=SC2016
expect 0 --nodes 1 --rate 60mbit --statistics -- sh -c 'ip route; ip -details link show eth0
  echo "slow start $(cat /proc/sys/net/ipv4/tcp_slow_start_after_idle)"'
expect_output '^10\.0\.0\.0/24 .* initcwnd 100 initrwnd 100'
expect_output '^slow start 0$'
expect_output ' gso_max_size 8192 '
expect_output '^from node0: qdisc tbf .*rate 60Mbit burst (599[0-9]|600[0-9])b'
expect 0 --nodes 1 --rate 14mbit --statistics -- true
expect_output '^from node0: qdisc tbf .*rate 14Mbit burst (3099|310[0-9])b'
if bash "$run" --mpiexec "$mpiexec" --latency 3ms --check; then
  expect 0 --latency 3ms -- "$probe" 2 1 2e8 3000
else
  echo "not tested: --latency, which this kernel does not have"
fi

echo "environment, codes and messages"
# shellcheck disable=SC2016
MATRIXFSDP_SAID=hello expect 0 --nodes 3 -- sh -c 'echo "$(hostname) says $MATRIXFSDP_SAID"'
for node in 0 1 2; do expect_output "^node$node says hello$"; done
expect 3 -- sh -c 'exit 3'
expect_nothing_left "a program that fails"
expect 124 --timeout 1 -- sleep 300
expect_nothing_left "the time-out"
expect 2 --nodes 0 -- true
expect_output '^run.sh: --nodes 0: expected a whole number from 1 to 200$'
expect 2 --rate fast -- true
expect_output '^run.sh: --rate fast: expected a number with'
expect 2 --nodes 2
expect_output 'expected -- PROGRAM'

echo "two at a time, then SIGTERM and SIGKILL"
begin
expect 0 -- true
kill -TERM "$script"
wait "$script"
code=$?
[ "$code" -eq 143 ] || fail "exit code $code after SIGTERM: expected 143"
expect_nothing_left "SIGTERM"
begin
kill -KILL "$script"
wait "$script" 2>/dev/null
expect_nothing_left "SIGKILL"
expect 0 -- true
expect_nothing_left "the run after SIGKILL"
echo "nothing is left after any of them"

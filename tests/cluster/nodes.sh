#!/usr/bin/env bash
# The inside of run.sh: builds the nodes, runs the job, reports. It is the first process of its namespaces.
# nodes.sh <nodes> <ranks> <rate> <latency> <seconds> <statistics> <mpiexec> <program>...
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
nodes=$1 ranks=$2 rate=$3 latency=$4 seconds=$5 statistics=$6 mpiexec=$7
shift 7

cannot() {
  echo "run.sh: no emulated cluster here: $1" >&2
  exit 77
}
# try <command>...: a step that a kernel may not allow.
try() {
  local reason
  reason=$("$@" 2>&1) || cannot "$*: ${reason%%$'\n'*}"
}
# inside <node> <command>...
inside() {
  nsenter --target "${holders[$1]}" --net --mount "${@:2}"
}

# The process that keeps a node's namespaces. /sys shows the network it is mounted in; /dev/shm is the node's memory.
# shellcheck disable=SC2016
hold='mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /dev/shm && hostname "$0" && ip link set lo up &&
  echo $$ && exec sleep infinity'

# What the kernel hands to a link at a time. Larger segments would share it more coarsely than any network does (measured
# with 64 kB at 200 Mbit/s: small collectives take one time or twice that, by chance).
segment=8192
# A link lets pass at once what it carries in 0.8 ms, two segments at 200 Mbit/s. More of it would carry small messages in
# no time, or not, by chance; less would let it idle while the next segment is made. At least two packets.
burst=3100
if [[ $rate =~ ^([0-9]+)([kmg])bit$ ]]; then
  case ${BASH_REMATCH[2]} in
    k) bytes=$((BASH_REMATCH[1] / 10)) ;;
    m) bytes=$((BASH_REMATCH[1] * 100)) ;;
    g) bytes=$((BASH_REMATCH[1] * 100000)) ;;
  esac
  burst=$((bytes < burst ? burst : bytes))
fi
# shape <device> <parent> [inside <node>]: the rate. The queue is long: a cluster's network loses nothing (measured with
# 1 MB: losses, and all-gathers 10 % slower; with 4 MB losses where seven nodes send to one).
shape() {
  # shellcheck disable=SC2086
  [ "$rate" = none ] || try "${@:3}" tc qdisc add dev "$1" $2 handle 2: tbf rate "$rate" burst "$burst" limit 64mb
}
# delay <node>: netem above tbf, so that the time on the way adds to the wait for the link (below it, the two overlap).
delay() {
  local reason
  reason=$(inside "$1" tc qdisc add dev eth0 root handle 1: netem delay "$latency" limit 100000 2>&1) ||
    cannot "--latency $latency: expected netem (CONFIG_NET_SCH_NETEM) in the kernel: ${reason%%$'\n'*}"
}

try ip link set lo up
try ip link add switch type bridge
try ip address add 10.0.0.254/24 dev switch
try ip link set switch up
holders=() hosts=()
for ((node = 0; node < nodes; ++node)); do
  exec {pipe}< <(unshare --net --ipc --uts --mount sh -c "$hold" "node$node" 2>&1)
  read -r -u "$pipe" pid
  [[ $pid =~ ^[0-9]+$ ]] || cannot "${pid:-node$node does not start}"
  holders+=("$pid") hosts+=("node$node")
  try ip link add "port$node" type veth peer name eth0 netns "$pid"
  try ip link set "port$node" master switch up
  try inside "$node" ip address add "10.0.0.$((node + 1))/24" dev eth0
  try inside "$node" ip link set eth0 gso_max_size "$segment" up
  # A cluster's network has no slow start, at first or after a pause, in which a message of 32 kB waits for what the
  # other end says of its first half: a whole queue later. Nor does it take what is late in a queue for lost (tail loss
  # probes, RACK, three segments that two processors passed on in another order) and send it again.
  try inside "$node" sh -c 'cd /proc/sys/net/ipv4 && echo 0 >tcp_slow_start_after_idle && echo 0 >tcp_early_retrans &&
    echo 0 >tcp_recovery && echo 300 >tcp_reordering'
  try inside "$node" ip route change 10.0.0.0/24 dev eth0 initcwnd 100 initrwnd 100
  shape "port$node" root
  if [ "$latency" = 0us ]; then
    shape eth0 root inside "$node"
  else
    delay "$node"
    shape eth0 "parent 1:1" inside "$node"
  fi
done

export MATRIXFSDP_CLUSTER_HOLDERS="${holders[*]}" UCX_TLS=tcp,sm UCX_NET_DEVICES=eth0
list=$(IFS=, && echo "${hosts[*]}")
timeout -k 5 "$seconds" "$mpiexec" -launcher ssh -launcher-exec "$here/launch.sh" -iface switch -hosts "$list" \
  -n $((nodes * ranks)) -ppn "$ranks" "$@" </dev/null
code=$?
if [ "$statistics" = yes ]; then
  for ((node = 0; node < nodes; ++node)); do
    inside "$node" tc -s qdisc show dev eth0 | sed "s/^/from node$node: /" >&2
    tc -s qdisc show dev "port$node" | sed "s/^/to node$node: /" >&2
  done
fi
exit "$code"

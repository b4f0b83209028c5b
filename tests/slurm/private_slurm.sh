#!/usr/bin/env bash
# A Slurm of one's own for the time of one command: private_slurm.sh COMMAND [ARGUMENT]...
#
# Starts munged, slurmctld and slurmd (one node with 4 CPUs and 4 devices that are no GPUs) on loopback ports and in a
# temporary folder of their own, runs COMMAND with SLURM_CONF set, ends everything it has started, and removes the
# folder. Where the kernel allows it, all of this lives in namespaces of its own (network, mounts, processes), so that
# nothing can outlive it, however it ends. MATRIXFSDP_SLURM_FOLDER tells COMMAND a folder for its files.
#
# Exit code: COMMAND's; 1 where a daemon does not start; 77 with a message where Slurm is missing, or the caller is not
# root, who alone may run jobs of others.
set -uo pipefail

cannot() {
  echo "private_slurm.sh: no Slurm here: $1" >&2
  exit 77
}
fail() {
  echo "private_slurm.sh: $1" >&2
  for log in "$folder"/*.log; do tail -n 20 "$log" | sed "s|^|${log##*/}: |" >&2; done
  exit 1
}

for tool in munged slurmctld slurmd srun sbatch scontrol; do
  command -v "$tool" >/dev/null || cannot "$tool is missing (Debian: slurmctld slurmd slurm-client munge)"
done
[ "$(id -u)" -eq 0 ] || cannot "expected root"

spaces=(setpriv --pdeathsig KILL unshare --net --mount --pid --mount-proc --ipc --uts --fork --kill-child)
if [ -z "${MATRIXFSDP_SLURM_INSIDE:-}" ]; then
  export MATRIXFSDP_SLURM_INSIDE=yes
  if "${spaces[@]}" ip link add node type bridge 2>/dev/null; then
    exec "${spaces[@]}" env MATRIXFSDP_SLURM_INSIDE=namespaces bash "$0" "$@"
  fi
  echo "private_slurm.sh: without namespaces, which this kernel does not allow" >&2
elif [ "$MATRIXFSDP_SLURM_INSIDE" = namespaces ]; then
  # getaddrinfo counts no loopback address when Slurm asks where to listen: the node has one address more.
  hostname mfsdp-node
  ip link set lo up
  ip link add node type bridge
  ip address add 10.0.0.1/24 dev node
  ip link set node up
fi

folder=$(mktemp -d)
daemons=()
# Jobs first, then daemons, by their process ids; what does not end in time is killed.
# shellcheck disable=SC2317
end() {
  timeout 20 scancel --quiet --full --signal=KILL --state=RUNNING --user=root
  timeout 20 scancel --quiet --user=root
  for ((i = 0; i < 100; ++i)); do
    [ -n "$(timeout 5 squeue --noheader)" ] || break
    sleep 0.1
  done
  for ((d = ${#daemons[@]}; d-- > 0;)); do
    kill -TERM "${daemons[d]}"
    for ((i = 0; i < 100; ++i)); do
      kill -0 "${daemons[d]}" || break
      sleep 0.1
    done
    kill -KILL "${daemons[d]}"
    wait "${daemons[d]}"
  done
  rm -rf "$folder"
} 2>/dev/null
trap end EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Two free ports in a row.
free_ports() {
  local port
  for ((i = 0; i < 100; ++i)); do
    port=$((20000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || (exec 3<>"/dev/tcp/127.0.0.1/$((port + 1))") 2>/dev/null ||
      { echo "$port" && return; }
  done
  return 1
}
port=$(free_ports) || fail "no free ports"
name=$(hostname)
name=${name%%.*}
chmod 755 "$folder"
mkdir -m 755 "$folder"/{state,spool,job}
head -c 1024 /dev/urandom >"$folder/munge.key"
chmod 600 "$folder/munge.key"

# The times are short: a test waits for them.
cat >"$folder/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$name(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/munge.socket
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_min_interval=0
KillWait=10
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
NodeName=$name NodeAddr=127.0.0.1 CPUs=4 Gres=gpu:4 State=UNKNOWN
PartitionName=normal Nodes=$name Default=YES MaxTime=INFINITE PriorityTier=1 GraceTime=60
PartitionName=urgent Nodes=$name MaxTime=INFINITE PriorityTier=10
END
for device in null zero full random; do echo "Name=gpu File=/dev/$device"; done >"$folder/gres.conf"
export SLURM_CONF=$folder/slurm.conf

# start <daemon> <command>...: in the foreground of this script's children, so that its process id is known.
start() {
  "${@:2}" >"$folder/$1.log" 2>&1 </dev/null &
  daemons+=($!)
}
# until_true <seconds> <what> <command>...
until_true() {
  for ((i = 0; i < 10 * $1; ++i)); do
    if "${@:3}" >/dev/null 2>&1; then return; fi
    for pid in "${daemons[@]}"; do kill -0 "$pid" 2>/dev/null || fail "$2: a daemon has ended"; done
    sleep 0.1
  done
  fail "$2: not after $1 s"
}
start munged munged --foreground --force --socket="$folder/munge.socket" --key-file="$folder/munge.key" \
  --pid-file="$folder/munged.pid" --seed-file="$folder/munge.seed" --log-file="$folder/munged-own.log"
until_true 20 "munged answers" test -S "$folder/munge.socket"
start slurmctld slurmctld -D -c -f "$SLURM_CONF"
until_true 30 "slurmctld answers" timeout 5 scontrol ping
start slurmd slurmd -D -N "$name" -f "$SLURM_CONF"
is_idle() { [ "$(timeout 5 sinfo --noheader --partition=normal --format=%T)" = idle ]; }
until_true 60 "the node is idle" is_idle

MATRIXFSDP_SLURM_FOLDER=$folder/job "$@"
code=$?
((code == 0)) || for log in slurmctld slurmd; do tail -n 20 "$folder/$log.log" | sed "s|^|$log: |" >&2; done
exit "$code"

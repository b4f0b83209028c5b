#!/usr/bin/env bash
# The batch scripts of apps/slurm on a real Slurm: jobs.sh <apps/slurm> <mfsdp-train> [WHAT]..., under private_slurm.sh.
# WHAT: requeue smoke wrong_pmi cancelled failed gpu (default: all of them)
set -uo pipefail
scripts=$(realpath "$1") train=$(realpath "$2")
shift 2
what=("${@:-all}")
cd "${MATRIXFSDP_SLURM_FOLDER:?expected to be run by private_slurm.sh}" || exit 1
export MATRIXFSDP_TRAIN=$train OPENBLAS_NUM_THREADS=1

fail() {
  echo "FAILED: $1"
  timeout 10 squeue
  for log in "$PWD"/*.log; do tail -n 30 "$log" | sed "s|^|${log##*/}: |"; done
  exit 1
}
# submit <script> <option of sbatch>... -- <argument>...: sets job and log.
submit() {
  local script=$1 options=()
  shift
  while [ "$1" != -- ]; do options+=("$1") && shift; done
  job=$(timeout 20 sbatch --parsable "${options[@]}" "$scripts/$script" "${@:2}") || fail "sbatch $script"
  log=$(timeout 20 scontrol show job "$job" | sed -n 's/^ *StdOut=//p')
}
state() { timeout 20 scontrol show job "$1" | sed -n 's/^ *JobState=\([A-Z_]*\).*/\1/p'; }
restarts() { timeout 20 scontrol show job "$1" | sed -n 's/.* Restarts=\([0-9]*\).*/\1/p'; }
# wait_for <seconds> <what> <command>...
wait_for() {
  for ((i = 0; i < 5 * $1; ++i)); do
    if "${@:3}"; then return; fi
    sleep 0.2
  done
  fail "$2: not after $1 s"
}
is() { [ "$(state "$1")" = "$2" ]; }
ended() { [[ $(state "$1") =~ ^(COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|PREEMPTED)$ ]]; }
# finish <job> <state>
finish() {
  wait_for 120 "job $1 ends" ended "$1"
  is "$1" "$2" || fail "job $1 is $(state "$1"): expected $2"
}
expect_log() { grep -Eaq -- "$1" "$log" || fail "expected in ${log##*/}: $1"; }
expect_count() {
  [ "$(grep -Eac -- "$2" "$log")" -eq "$1" ] || fail "expected $1 times in ${log##*/}: $2"
}
steps_of() { cat "$1/metrics.jsonl" 2>/dev/null | grep -c '"loss_bits"'; }
has_steps() { [ "$(steps_of "$1")" -ge "$2" ]; }
losses_of() { sed -n 's/.*"loss_bits":"\([^"]*\)".*/\1/p' "$1/metrics.jsonl"; }

# Some seconds on two cores: longer than a signal takes.
steps=240
model=(--data "$scripts" --layers 4 --hidden 128 --heads 4 --seq-len 64 --batch-size 16 --micro-batch 2 --steps "$steps")
cpu=(--nodes=1 --ntasks-per-node=4 --cpus-per-task=1 --job-name=run)

# is_queued_again <job> <times>; a requeued job would wait for two minutes, so that it does not take the credentials of
# its former life, which are revoked, for its own. Their times are whole seconds.
is_queued_again() { [ "$(restarts "$1")" = "$2" ] && is "$1" PENDING; }
start_again() {
  wait_for 60 "job $1 is back in the queue" is_queued_again "$1" "$2"
  timeout 20 scontrol update JobId="$1" StartTime=now+3 || fail "StartTime of job $1"
}

# The same run twice. The second is stopped by USR1, then preempted by a job of a partition that comes first (SIGTERM and
# a time of grace), and goes back into the queue both times. Every loss must have the same bits.
requeue() {
  submit cpu.sbatch "${cpu[@]}" -- "${model[@]}"
  finish "$job" COMPLETED
  local whole=runs/run-$job
  ! grep -aq 'stopped by SIG' "$log" || fail "the uninterrupted run was stopped"
  [ "$(steps_of "$whole")" = "$steps" ] || fail "$(steps_of "$whole") steps in $whole: expected $steps"

  submit cpu.sbatch "${cpu[@]}" -- "${model[@]}"
  local run=runs/run-$job
  wait_for 60 "the first steps" has_steps "$run" 10
  timeout 20 scancel --signal=USR1 "$job"
  start_again "$job" 1
  local first_part
  first_part=$(steps_of "$run")
  wait_for 60 "steps after the first restart" has_steps "$run" $((first_part + 10))
  timeout 60 srun --partition=urgent --ntasks=4 --immediate=50 true || fail "the job that comes first"
  start_again "$job" 2
  (($(steps_of "$run") < steps)) || fail "the run was over before it was preempted: more steps are needed"
  finish "$job" COMPLETED
  [ "$(restarts "$job")" = 2 ] || fail "$(restarts "$job") restarts: expected 2"
  expect_log 'stopped by SIGUSR1 after step'
  expect_log 'stopped by SIGTERM after step'
  expect_count 2 'back into the queue'
  expect_count 1 "^Trained .* to $steps on 4 ranks" # below the lines of the parts before: the log is appended to
  losses_of "$whole" >losses.whole
  losses_of "$run" | diff losses.whole - >losses.diff || fail "losses differ: $(head -n 4 losses.diff)"
  echo "requeue: $steps losses equal after USR1 at step $first_part and a preemption"
}

smoke() {
  submit smoke.sbatch --
  finish "$job" COMPLETED
  [ "$(steps_of "runs/mfsdp-smoke-$job")" = 20 ] || fail "expected 20 steps"
  expect_log '4 ranks on 1 node'
  echo "smoke: 20 steps on 4 ranks"
}

# CASES 66: srun speaks no PMI, so every process would train alone, as rank 0 of 1.
wrong_pmi() {
  export MATRIXFSDP_PMI=none
  submit smoke.sbatch --
  unset MATRIXFSDP_PMI
  finish "$job" FAILED
  expect_log 'world size 1: SLURM_[A-Z_]*TASKS says 4 tasks; expected as many ranks'
  [ ! -e "runs/mfsdp-smoke-$job/metrics.jsonl" ] || fail "a rank has trained alone"
  echo "wrong PMI: refused"
}

# Who cancels a job does not want it back, although its ranks save and leave as ever.
cancelled() {
  submit cpu.sbatch "${cpu[@]}" -- "${model[@]}"
  wait_for 60 "the first steps" has_steps "runs/run-$job" 5
  timeout 20 scancel "$job"
  finish "$job" CANCELLED
  wait_for 30 "the job has left its node" is_idle
  is "$job" CANCELLED || fail "the cancelled job is $(state "$job")"
  echo "cancelled: stays so"
}
is_idle() { [ "$(timeout 5 sinfo --noheader --partition=normal --format=%T)" = idle ]; }

a_rank_of() {
  local pid
  for pid in $(timeout 20 scontrol listpids "$1" | awk 'NR > 1 {print $1}'); do
    [ "$(readlink "/proc/$pid/exe")" != "$train" ] || { echo "$pid" && return; }
  done
}

# A run that cannot begin, and a rank that is killed (-K1): the job fails at once, and is not repeated.
failed() {
  submit cpu.sbatch "${cpu[@]}" -- "${model[@]}" --heads 7
  finish "$job" FAILED
  timeout 20 scontrol show job "$job" | grep -q 'ExitCode=2:0' || fail "expected exit code 2"
  submit cpu.sbatch "${cpu[@]}" -- "${model[@]}"
  wait_for 60 "the first steps" has_steps "runs/run-$job" 5
  kill -KILL "$(a_rank_of "$job")" || fail "no process of job $job is seen"
  finish "$job" FAILED
  [ "$(restarts "$job")" = 0 ] || fail "a failed job was repeated"
  echo "failed: not repeated"
}

# CASES 67: each rank sees every device of its node, and each has a local rank of its own to choose by.
gpu() {
  cat >print_devices <<'END'
#!/bin/sh
echo "local rank $SLURM_LOCALID of $SLURM_NTASKS_PER_NODE sees $CUDA_VISIBLE_DEVICES, threads $OMP_NUM_THREADS"
END
  chmod +x print_devices
  export MATRIXFSDP_TRAIN=$PWD/print_devices
  submit gpu.sbatch --nodes=1 --gpus-per-node=4 --ntasks-per-node=4 --cpus-per-task=1 --
  export MATRIXFSDP_TRAIN=$train
  finish "$job" COMPLETED
  for rank in 0 1 2 3; do expect_log "^local rank $rank of 4 sees 0,1,2,3, threads 1$"; done
  echo "gpu: 4 ranks, each sees 4 devices"
}

for one in "${what[@]}"; do
  case $one in
    all) requeue && smoke && wrong_pmi && cancelled && failed && gpu ;;
    requeue | smoke | wrong_pmi | cancelled | failed | gpu) "$one" ;;
    *) fail "$one: expected one of those above" ;;
  esac
done

#!/usr/bin/env bash
# Kills saves, and sees that every restart goes on from a valid step, that nothing that was published is lost, and that
# the losses of all the parts are those of a run that nobody killed:
#   crash_saves.sh [--kills N] [--seed N] MPIEXEC NUMPROC_FLAG MFSDP_TRAIN INTERPOSER FOLDER
# Kill k is at point k of the list below, in turn, or at a random moment; by SIGKILL to one rank, by SIGKILL to all, or by
# SIGSTOP and then SIGKILL; on 1 to 4 ranks; with saves beside training or not. The long form: --kills 300.
set -uo pipefail
kills=300
RANDOM=7
while [[ "${1:-}" == --* ]]; do
  case "$1" in
    --kills) kills="$2" ;;
    --seed) RANDOM="$2" ;;
    *) echo "option '$1': expected --kills or --seed" >&2; exit 2 ;;
  esac
  shift 2
done
(($# == 5)) || { echo "expected MPIEXEC NUMPROC_FLAG MFSDP_TRAIN INTERPOSER FOLDER" >&2; exit 2; }
mpiexec=$1 flag=$2 train=$3 interposer=$4 folder=$5

points=(before-file mid-write after-data manifest-written manifest-named before-rename after-rename before-latest
  after-exchange before-prune mid-prune random)
ways=(one all stop)
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 OMP_PROC_BIND=false

rm -rf "$folder"
mkdir -p "$folder/notes"
awk 'BEGIN { for (i = 0; i < 4000; ++i) printf "%s ", (i * i % 7 < 3 ? "owner" : i % 5 == 0 ? "shard" : "step") }' > "$folder/text"
options=(--data "$folder/text" --layers 1 --hidden 16 --heads 2 --seq-len 8 --batch-size 12 --lr-schedule constant
  --sample-tokens 0 --eval-batches 1 --steps 100000)

fail() {
  echo "kill $kill ($point, $way, $ranks ranks, $mode): $1" >&2
  sed 's/^/stderr: /' "$folder/err" >&2
  exit 1
}
published() { # the step that `latest` names, or 0
  local name="step_0"
  [[ -f "$folder/run/latest" ]] && name="$(cat "$folder/run/latest")"
  echo $((10#${name#step_}))
}
wait_for_end() { # of the job, or fails
  local i
  for ((i = 0; i < 600; ++i)); do
    kill -0 "$job" 2> /dev/null || break
    sleep 0.05
  done
  kill -0 "$job" 2> /dev/null && fail "the job did not end within 30 s"
  wait "$job"
  code=$?
  job=""
}
kill_ranks() {
  local pid
  for pid in "$@"; do kill -KILL "$(cat "$pid")" 2> /dev/null; done
}
start_job() {
  rm -f "$folder"/notes/*
  "$mpiexec" "$flag" "$ranks" env LD_PRELOAD="$interposer" SAVE_POINT="$point" SAVE_POINT_N="$number" \
    SAVE_POINT_RANK="$victim" SAVE_POINT_WAY="$([[ $way == one ]] && echo kill || echo stop)" \
    SAVE_POINT_NOTES="$folder/notes" "$train" "${options[@]}" --checkpoint-dir "$folder/run" --checkpoint-every 1 \
    --checkpoint-mode "$mode" --keep-last 2 --resume auto --metrics "$folder/metrics" \
    > "$folder/out" 2> "$folder/err" < /dev/null &
  job=$!
}
end_at_point() {
  local i
  [[ $way == one ]] && return  # it kills itself
  for ((i = 0; i < 400; ++i)); do
    [[ -e "$folder/notes/reached" ]] && break
    kill -0 "$job" 2> /dev/null || fail "the job ended before the point"
    sleep 0.02
  done
  [[ -e "$folder/notes/reached" ]] || fail "the point was not reached within 8 s"
  if [[ $way == all ]]; then
    kill_ranks "$folder"/notes/pid.*
  else
    sleep "0.0$((RANDOM % 10))"
    kill_ranks "$folder/notes/pid.$victim"
  fi
}
end_at_random() {
  local i
  for ((i = 0; i < 400; ++i)); do
    [[ -s "$folder/notes/pid.$((ranks - 1))" && $(cat "$folder"/notes/pid.* | wc -l) == "$ranks" ]] && break
    sleep 0.02
  done
  sleep "0.$((1 + RANDOM % 9))"
  if [[ $way == one ]]; then
    kill_ranks "$folder/notes/pid.$victim"
  else
    [[ $way == stop ]] && kill -STOP "$(cat "$folder/notes/pid.$victim")" 2> /dev/null && sleep 0.05
    kill_ranks "$folder"/notes/pid.*
  fi
}
expect_resumed_from() { # at least this step, and without a word about a damaged one
  local found
  found="$(sed -nE 's|.*resumed from .*/step_0*([0-9]+)$|\1|p' "$folder/err")"
  (($1 == 0 || ${found:-0} >= $1)) || fail "resumed from step ${found:-0}; expected $1, which was published"
  ! grep -q "warning: checkpoint" "$folder/err" || fail "a checkpoint is not valid"
}

job=""
end_job() {
  [[ -n "$job" ]] || return 0
  kill_ranks "$folder"/notes/pid.*
  kill -KILL "$job" 2> /dev/null
}
trap end_job EXIT

kill=0 at=0
while ((kill < kills)); do
  point=${points[at % ${#points[@]}]} way=${ways[(at / ${#points[@]} + at) % 3]}
  mode=$([[ $((at / 5 % 2)) == 0 ]] && echo async || echo sync)
  ranks=$((1 + RANDOM % 4)) victim=0
  case "$point" in before-file | mid-write | after-data | random) victim=$((RANDOM % ranks)) ;; esac
  number=$((1 + RANDOM % 3))
  [[ $point == after-exchange ]] && number=1  # only what before-latest left behind is exchanged
  at=$((at + 1)) kill=$((kill + 1))
  before=$(published)
  start_job
  if [[ $point == random ]]; then end_at_random; else end_at_point; fi
  wait_for_end
  ((code != 0 && code != 2)) || fail "the job ended with $code; expected to see it killed"
  # Killed at a random moment it may not have come so far as to say it.
  if [[ $point != random ]] || grep -q "resumed" "$folder/err"; then expect_resumed_from "$before"; fi
  (($(published) >= before)) || fail "step $before was published, and then $(published)"
done

# A run that is not killed goes on from there, and leaves no trace of the others.
point=none way=none ranks=2 mode=async victim=0 number=1 kill=end before=$(published)
options+=(--steps $((before + 2)))
start_job
wait_for_end
((code == 0)) || fail "exit code $code"
expect_resumed_from "$before"
entries="$(ls -A "$folder/run" | sort | tr '\n' ' ')"
[[ "$entries" == ".lock latest $(printf 'step_%08d step_%08d ' $((before + 1)) $((before + 2)))" ]] ||
  fail "left in the folder: $entries"

# Every loss, bit for bit; a line that a kill has cut is no line.
bits() { sed -nE 's/.*"loss_bits":"([0-9a-f]{16})".*"step":([0-9]+),.*/\2 \1/p' "$1" | sort -n -u; }
rm -f "$folder/whole"
"$mpiexec" "$flag" 1 "$train" "${options[@]}" --metrics "$folder/whole" > "$folder/out" 2> "$folder/err" < /dev/null ||
  fail "the run without kills failed"
[[ "$(bits "$folder/metrics")" == "$(bits "$folder/whole")" ]] || fail "the losses differ from those of one run"
echo "$kills kills: $((before + 2)) steps, every restart valid, every loss as in one run"

#!/usr/bin/env bash
# Installs what is missing, builds, and trains a byte-level transformer with Muon on 4 ranks, on a dictionary of
# computing (FOLDOC, real English prose). Run it again to continue; other ways:
#   bash apps/quickstart.sh --fresh             start over
#   bash apps/quickstart.sh --steps 800         train on to step 800 (any option of mfsdp-train)
#   bash apps/quickstart.sh --data my-book.txt  your own text, in a run of its own
set -euo pipefail
cd "$(dirname "$0")/.."

fresh=no
data=
arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --fresh) fresh=yes ;;
    --data) data=$(realpath "${2:?--data: expected a text file}"); shift ;;
    -h|--help) sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) arguments+=("$1") ;;
  esac
  shift
done

bash apps/setup_debian.sh
mkdir -p build/native
if ! { cmake --preset native && cmake --build --preset native --target mfsdp-train; } >build/native/quickstart.log 2>&1; then
  tail -n 30 build/native/quickstart.log >&2
  echo "quickstart: the build failed; the whole log is build/native/quickstart.log" >&2
  exit 2
fi

name=foldoc
if [ -n "$data" ]; then
  name=$(basename "$data" | tr -c 'A-Za-z0-9._\n' '-')
fi
run=runs/$name
[ "$fresh" = no ] || rm -rf "$run"
mkdir -p "$run"
if [ -z "$data" ]; then
  data=$run/foldoc.txt
  [ -s "$data" ] || gzip -dc /usr/share/dictd/foldoc.dict.dz >"$data"
fi

export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
exec mpiexec -n 4 build/native/bin/mfsdp-train --data "$data" --model gpt2 \
  --layers 4 --hidden 128 --heads 4 --seq-len 128 --batch-size 16 --micro-batch 4 --steps 400 \
  --lr 0.02 --adamw-lr 0.002 --warmup-steps 20 --lr-schedule warmup-stable-decay \
  --checkpoint-dir "$run/checkpoints" --checkpoint-every 100 --resume auto --metrics "$run/metrics.jsonl" \
  ${arguments[@]+"${arguments[@]}"}

#!/usr/bin/env bash
# The published comparison in reduced form, on an emulated cluster of this machine: see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'END'
Usage: bash apps/bench/paper.sh [--out DIR] [--quick] [--bench PROGRAM]

Measures MatrixFSDP beside its peers on 8 emulated nodes of one rank (tests/cluster/run.sh), and writes a page with the
published figures next to ours: DIR/results.html. The rate of the links is chosen so that a rank computes 8.8 thousand
operations in the time of one byte, as the published machine does; both rates are measured in the run.

  --out DIR        folder of the page, and of every figure as JSON with its command and log (default build/paper)
  --quick          smaller models and fewer rounds: minutes instead of a quarter of an hour
  --bench PROGRAM  mfsdp-bench (default build/native/bin/mfsdp-bench)
  --help           this text

Exit code: 0; 2 for bad options or a benchmark that fails; 77 where this machine cannot run an emulated cluster (the
model beside the published figures is computed all the same).
END
}

fail() {
  echo "paper.sh: $1" >&2
  exit 2
}

out=build/paper quick=no bench=build/native/bin/mfsdp-bench
while (($#)); do
  case $1 in
    --out | --bench)
      (($# > 1)) || fail "$1: expected a value after it"
      if [ "$1" = --out ]; then out=$2; else bench=$2; fi
      shift 2
      ;;
    --quick) quick=yes && shift ;;
    --help | -h) usage && exit 0 ;;
    *) fail "option '$1': expected one of --out, --quick, --bench, --help" ;;
  esac
done
command -v "$bench" >/dev/null || fail "--bench '$bench': expected the built mfsdp-bench"
mkdir -p "$out" || fail "--out '$out': expected a folder that can be made"
rm -f "$out"/*.json "$out"/*.command "$out"/*.log "$out/results.html"
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

kflop_per_byte=8.8 # of the published machine
ranks=8
# Headers of Ethernet, IP and TCP, which the emulated link counts too, and ranks do not.
wire=1.045
if [ "$quick" = no ]; then
  # 8192 tokens of a rank in a pass: float32 has twice the bytes of the published bfloat16, so twice the 4096 tokens
  # give as many operations for a byte of forward and backward, and as many recomputed ones.
  # Four blocks of six matrices: as many of each shape for every rank.
  blocks=4 hidden=192 optimizer_rounds=3
  model=(--model gpt2 --layers 3 --hidden 128 --heads 4 --ffn 512 --seq-len 128 --vocab-size 256)
  micro_batch=64 train_rounds=2 unit_bytes=8388608 units=4
else
  blocks=2 hidden=64 optimizer_rounds=1
  model=(--model gpt2 --layers 2 --hidden 64 --heads 2 --ffn 256 --seq-len 64 --vocab-size 256)
  micro_batch=128 train_rounds=1 unit_bytes=1000000 units=3
fi
strategies=(matrix-fsdp fsdp2 fsdp2-gather fsdp2-alltoall zero1-owner ddp)

files=()
# measure NAME COMMAND...: the figures are NAME.json
measure() {
  local name=$1 start=$SECONDS
  shift
  echo "OPENBLAS_NUM_THREADS=1 $*" >"$out/$name.command"
  if ! "$@" --json >"$out/$name.json" 2>"$out/$name.log"; then
    tail -n 5 "$out/$name.log" >&2
    fail "$name failed; its log is $out/$name.log, its command: $*"
  fi
  [ "$name" = kernel-rate ] || files+=("$out/$name.json")
  echo "$name: $((SECONDS - start)) s"
}
# first_figure NAME KEY: of the first row that has it
first_figure() {
  sed -n "s/^ *\"$2\": \([0-9.e+-]*\),\{0,1\}$/\1/p" "$out/$1.json" | head -n 1
}
compute() { awk "BEGIN { printf \"%.0f\", $1 }"; }

measure paper-model mpiexec -n 1 "$bench" paper-model
bash tests/cluster/run.sh --nodes "$ranks" --rate 1mbit --check || exit

# What a rank computes in a second while all of them do, and from it the rate of the links.
measure kernel-rate bash tests/cluster/run.sh --nodes "$ranks" --rate none --timeout 200 -- "$bench" optimizer-step \
  --blocks "$blocks" --hidden "$hidden" --strategy matrix-fsdp --rounds 1
gflops=$(first_figure kernel-rate kernel_gflops)
rate=$(compute "$wire * 8 * 1e9 * $gflops / ($kflop_per_byte * 1e3) / 1e3")kbit
echo "a rank reaches $gflops GFLOP/s: links of $rate bring one byte in the time of $kflop_per_byte kFLOP"
cluster=(bash tests/cluster/run.sh --nodes "$ranks" --rate "$rate" --timeout 900 -- "$bench")
links=(--collective-profile "$out/links.profile")
rm -f "${links[1]}"

for steps in 5 2; do
  measure "optimizer-step-$steps" "${cluster[@]}" optimizer-step --blocks "$blocks" --hidden "$hidden" \
    --ns-steps "$steps" --strategy "${strategies[@]}" --rounds "$optimizer_rounds" "${links[@]}"
done
train=("${cluster[@]}" train-step "${model[@]}" --micro-batch "$micro_batch" --recompute "${links[@]}")
measure train-step "${train[@]}" --strategy "${strategies[@]}" --rounds "$train_rounds"
measure padded "${train[@]}" --strategy matrix-fsdp --collective scatter auto padded --rounds 1
measure planners "${train[@]}" --strategy matrix-fsdp --planner role scope cost balanced --rounds 1
measure strong-scaling "${cluster[@]}" optimizer-step --blocks 1 --hidden "$hidden" --strategy matrix-fsdp \
  --ranks 1 2 4 8 --rounds 3
# Computation takes 0.62 of the time of the transfers, as it does there: 8 x 4096 operations for each parameter, and 6
# bytes of 8.8 thousand operations. It is a timed wait, so that the links may be quick and the units many messages long.
measure few-matrices bash tests/cluster/run.sh --nodes "$ranks" --rate 200mbit --timeout 300 -- "$bench" overlap \
  --units "$units" --bytes "$unit_bytes" --matrices 8 3 --progress thread \
  --compute-ms "$(compute "620 * $unit_bytes * $wire * 8 / 200e6")" --rounds 2

"$bench" results-page "${files[@]}" --output "$out/results.html"
echo "$out/results.html: written after $SECONDS s"

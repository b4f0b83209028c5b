#!/usr/bin/env bash
# A table of AdamW, Muon, Shampoo and SOAP on the quickstart's model: see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'END'
Usage: bash apps/bench/optimizers.sh [--out DIR] [--data FILE] [--steps N] [--lr "RATE..."] [--seeds "SEED..."]
                                     [--optimizers "NAME..."] [--ranks N] [--train PROGRAM] [-- OPTION...]

Trains the quickstart's model with each optimizer, each learning rate of one grid and each seed, for the same steps, and
prints a line for each optimizer and rate: the validation loss (mean over seeds, smallest and largest), the mean seconds of
training and of the optimizer's steps in it; then the best rate of each. Tails are on AdamW in all runs, at the quickstart's
rate; the grid is that of matrices (with adamw: of everything).

  --out DIR        folder of the table, and of each run's summary and metrics (default build/optimizers)
  --data FILE      text (default: the quickstart's dictionary of computing, FOLDOC)
  --steps N        default 400, as the quickstart
  --lr RATES       default "0.001 0.003 0.01 0.03"
  --seeds SEEDS    default "1 2 3"
  --optimizers NS  default "adamw muon shampoo soap"
  --ranks N        default 2
  --train PROGRAM  mfsdp-train (default build/native/bin/mfsdp-train)
  -- OPTION...     more of mfsdp-train's options, for all runs
  --help           this text

A run whose summary is there is not repeated: name another --out for other data or options.
Exit code: 0; 2 for bad options or a run that fails.
END
}

fail() {
  echo "optimizers.sh: $1" >&2
  exit 2
}

out=build/optimizers data='' steps=400 rates="0.001 0.003 0.01 0.03" seeds="1 2 3" ranks=2
optimizers="adamw muon shampoo soap" train=build/native/bin/mfsdp-train more=()
while (($#)); do
  case $1 in
    --help | -h) usage && exit 0 ;;
    --) shift && more=("$@") && break ;;
    --out | --data | --steps | --lr | --seeds | --optimizers | --ranks | --train)
      (($# > 1)) || fail "$1: expected a value after it"
      case $1 in
        --out) out=$2 ;;
        --data) data=$2 ;;
        --steps) steps=$2 ;;
        --lr) rates=$2 ;;
        --seeds) seeds=$2 ;;
        --optimizers) optimizers=$2 ;;
        --ranks) ranks=$2 ;;
        --train) train=$2 ;;
      esac
      shift 2
      ;;
    *) fail "option '$1': --help lists the options" ;;
  esac
done
command -v "$train" >/dev/null || fail "--train '$train': expected the built mfsdp-train"
mkdir -p "$out" || fail "--out '$out': expected a folder that can be made"
if [ -z "$data" ]; then
  data=$out/foldoc.txt
  [ -s "$data" ] || gzip -dc /usr/share/dictd/foldoc.dict.dz >"$data" || fail "the dictionary is missing: expected --data"
fi
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

# run NAME OPTIMIZER RATE SEED: leaves NAME.json and NAME.jsonl
run() {
  local rate=(--lr "$3" --adamw-lr 0.002)
  [ "$2" != adamw ] || rate=(--adamw-lr "$3")
  mpiexec -n "$ranks" "$train" --data "$data" --model gpt2 --layers 4 --hidden 128 --heads 4 --seq-len 128 \
    --batch-size 16 --micro-batch 4 --steps "$steps" --warmup-steps "$((steps / 20))" \
    --lr-schedule warmup-stable-decay --sample-tokens 0 --optimizer "$2" "${rate[@]}" --seed "$4" \
    --metrics "$1.jsonl" --json ${more[@]+"${more[@]}"} >"$1.json.part" 2>"$1.log" ||
    { tail -n 3 "$1.log" >&2 && fail "optimizer $2, rate $3, seed $4 failed; its log is $1.log"; }
  mv "$1.json.part" "$1.json"
}

# figure FILE KEY: the number of a key in one of the programs' JSON
figure() { sed -n "s/.*\"$2\": \{0,1\}\([-0-9.e+]*\).*/\1/p" "$1" | head -n 1; }
# seconds FILE KEY: of all steps together
seconds() {
  sed -n "s/.*\"milliseconds\":{[^}]*\"$2\": \{0,1\}\([-0-9.e+]*\).*/\1/p" "$1" | awk '{ sum += $1 } END { print sum / 1e3 }'
}

table=$out/table.txt
printf '%-9s %8s %9s %9s %9s %9s %12s\n' optimizer lr loss smallest largest seconds 'of optimizer' >"$table.part"
for optimizer in $optimizers; do
  for rate in $rates; do
    figures=$(for seed in $seeds; do
      name=$out/$optimizer-$rate-$steps-$seed
      [ -s "$name.json" ] || run "$name" "$optimizer" "$rate" "$seed"
      echo "$(figure "$name.json" validation_loss) $(seconds "$name.jsonl" total) $(seconds "$name.jsonl" optimizer)"
    done) || exit 2
    awk -v optimizer="$optimizer" -v rate="$rate" '
      NF != 3 { diverged += 1; next } # its loss is not a number
      !count || $1 < least { least = $1 }
      !count || $1 > most { most = $1 }
      { ++count; loss += $1; all += $2; own += $3 }
      END {
        if (diverged) { printf "%-9s %8s diverged with %d of %d seeds\n", optimizer, rate, diverged, NR; exit }
        printf "%-9s %8s %9.4f %9.4f %9.4f %9.1f %12.1f\n", optimizer, rate, loss / NR, least, most, all / NR, own / NR
      }
    ' <<<"$figures" | tee -a "$table.part" >&2
  done
done
{
  cat "$table.part"
  echo
  echo "best of each:"
  awk 'NR > 1 && $3 != "diverged" && (!($1 in best) || $3 < best[$1]) { best[$1] = $3; line[$1] = $0 }
       END { for (name in line) print line[name] }' "$table.part" | sort -k3,3n
} >"$table"
rm "$table.part"
cat "$table"

#!/usr/bin/env bash
# Trains the same model in float32 and in bfloat16 and compares the losses of every step:
#
#   tests/tools/bfloat16_losses.sh TRAIN [STEPS] [FOLDER]
#
# TRAIN is the program mfsdp-train. Prints the largest relative difference; fails where it is over 1 percent. The short
# form is the test tools.Compute.losses_stay_within_a_percent_of_float32.
set -euo pipefail
train=${1:?usage: bfloat16_losses.sh TRAIN [STEPS] [FOLDER]}
steps=${2:-300}
folder=${3:-$(mktemp -d)}
mkdir -p "$folder"
text="$folder/text.txt"
zcat < /usr/share/dictd/foldoc.dict.dz > "$text"  # Debian's dict-foldoc: real English text
run() { # NAME OPTIONS...
  local name=$1
  shift
  "$train" --data "$text" --layers 4 --hidden 128 --heads 4 --seq-len 128 --batch-size 16 --micro-batch 16 --steps "$steps" \
    --sample-tokens 0 --metrics "$folder/$name.jsonl" "$@" > "$folder/$name.out" < /dev/null
  sed -n '/"loss_bits"/s/.*"loss":\([0-9.eE+-]*\).*/\1/p' "$folder/$name.jsonl" > "$folder/$name.losses"
}
run float32
run compute --compute-dtype bfloat16
run both --compute-dtype bfloat16 --ns-dtype bfloat16
for name in compute both; do
  paste "$folder/float32.losses" "$folder/$name.losses" | awk -v name="$name" -v steps="$steps" '
    { difference = ($2 - $1) / $1; if (difference < 0) difference = -difference; if (difference > most) most = difference; ++count; last = $1; rounded = $2 }
    END {
      printf "%s: %d steps, largest relative difference of the loss %.5f; last losses %.4f and %.4f\n", name, count, most, last, rounded
      exit !(count == steps && most <= 0.01)
    }'
done

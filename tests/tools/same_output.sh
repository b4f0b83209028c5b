#!/usr/bin/env bash
# A program that prints the same whatever the number of ranks: same_output.sh <mpiexec> <flag for it> <program>
set -uo pipefail
mpiexec=$1 flag=$2 program=$3
one=$(timeout 60 "$mpiexec" "$flag" 1 "$program") || { echo "1 rank: exit code $?" && exit 1; }
[ -n "$one" ] || { echo "1 rank prints nothing" && exit 1; }
for ranks in 2 4; do
  more=$(timeout 60 "$mpiexec" "$flag" "$ranks" "$program") || { echo "$ranks ranks: exit code $?" && exit 1; }
  diff <(echo "$one") <(echo "$more") || { echo "$ranks ranks print something else than 1" && exit 1; }
done
echo "$one"

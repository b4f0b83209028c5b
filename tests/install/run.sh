#!/usr/bin/env bash
# Installs the build tree $1 into a new prefix under $2, builds this folder against it (with the user's own compiler flags
# MATRIXFSDP_USER_FLAGS, if any), and runs it with $3 = mpiexec and the programs that were installed.
set -euo pipefail
build=$1 work=$2 mpiexec=$3 here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/source/examples"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cp -r "$here"/{CMakeLists.txt,leaks.cmake,all_of_it.cpp,planner} "$work/source/"
cp "$here"/../../apps/examples/*.cpp "$work/source/examples/"
# A prefix that has moved still works.
mv "$work/prefix" "$work/moved"
for project in . planner; do
  cmake -S "$work/source/$project" -B "$work/build/$project" -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS="${MATRIXFSDP_USER_FLAGS:-}" -DMPIEXEC_EXECUTABLE="$mpiexec" \
    -DEXAMPLES="$work/source/examples"
  cmake --build "$work/build/$project"
done
# Nothing of ours leaks into a user's compile line.
if grep -E 'march=|ffp-contract|-Wpedantic|fno-math-errno' "$work"/build/build.ninja; then
  echo "compile options of ours leak into a user's project" >&2
  exit 1
fi
ctest --test-dir "$work/build" --output-on-failure --no-tests=error
"$work/build/planner/planner"
"$mpiexec" -n 2 "$work/moved/bin/mfsdp-train" --version
for program in ckpt plan report tokenize; do # of login nodes
  "$work/moved/bin/mfsdp-$program" --version
done
"$mpiexec" -n 2 "$work/moved/bin/mfsdp-generate" --version
for script in cpu.sbatch gpu.sbatch smoke.sbatch train.sh rank.sh; do
  [ -f "$work/moved/share/matrixfsdp/slurm/$script" ] || { echo "$script is not installed" >&2 && exit 1; }
done

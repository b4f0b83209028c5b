#!/usr/bin/env bash
# Installs the build tree $1 into a new prefix under $2, builds this folder against it (with the user's own compiler flags
# MATRIXFSDP_USER_FLAGS, if any), and runs it with $3 = mpiexec.
set -euo pipefail
build=$1 work=$2 mpiexec=$3 here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/source"
cmake --install "$build" --prefix "$work/prefix" >/dev/null
cp "$here"/CMakeLists.txt "$here"/all_of_it.cpp "$here"/../../apps/examples/hello_owner.cpp "$work/source/"
cmake -S "$work/source" -B "$work/build" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS="${MATRIXFSDP_USER_FLAGS:-}"
cmake --build "$work/build"
# Nothing of ours leaks into a user's compile line.
if grep -E 'march=native|ffp-contract|-Wpedantic' "$work/build/build.ninja"; then
  echo "compile options of ours leak into a user's project" >&2
  exit 1
fi
"$work/build/all_of_it"
"$mpiexec" -n 3 "$work/build/hello_owner" | tee "$work/output"
[ "$(grep -c '^step ' "$work/output")" = 5 ]
"$mpiexec" -n 2 "$work/prefix/bin/mfsdp-train" --version

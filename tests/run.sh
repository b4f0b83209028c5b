#!/usr/bin/env bash
# Sets up, builds and runs all tests through CTest. Arguments go to ctest (for example: bash tests/run.sh -R unit).
set -euo pipefail
cd "$(dirname "$0")/.."

bash apps/setup_debian.sh
cmake --preset native
cmake --build --preset native
jobs=$(nproc)
# One thread per rank: MPI tests already have more ranks than cores. (nproc would obey OMP_NUM_THREADS.)
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
ctest --preset native -j "$jobs" "$@"

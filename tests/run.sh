#!/usr/bin/env bash
# Sets up, builds and runs all tests through CTest. Arguments go to ctest (for example: bash tests/run.sh -R unit).
set -euo pipefail
cd "$(dirname "$0")/.."

bash apps/setup_debian.sh
cmake --preset native
cmake --build --preset native
# MPI tests use more ranks than cores and sleep while they wait: one at a time on this few cores, others beside them.
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
ctest --preset native -j "$(nproc)" "$@"

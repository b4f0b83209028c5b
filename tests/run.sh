#!/usr/bin/env bash
# Sets up, builds and runs all tests through CTest. Arguments go to ctest (for example: bash tests/run.sh -R unit).
set -euo pipefail
cd "$(dirname "$0")/.."

bash apps/setup_debian.sh
# The test install.shared builds the library once more, from objects that the first build has left in a cache.
if command -v ccache >/dev/null && [ -z "${CMAKE_CXX_COMPILER_LAUNCHER:-}" ]; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CCACHE_DIR=$PWD/build/ccache CCACHE_NOHASHDIR=1
fi
cmake --preset native
cmake --build --preset native
# Other readers of checkpoints, for the test io.interop.python, which says so where they cannot be had.
if ! build/python/bin/python -c "import numpy, h5py, safetensors" 2>/dev/null; then
  { python3 -m venv build/python && build/python/bin/pip install --quiet numpy h5py safetensors; } >&2 ||
    echo "tests: no h5py and safetensors for Python: io.interop.python will see nothing" >&2
fi
jobs=$(nproc)
# One thread per rank: MPI tests already have more ranks than cores. (nproc would obey OMP_NUM_THREADS.)
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
ctest --preset native -j "$jobs" "$@"

#!/usr/bin/env bash
# Builds the library with Open MPI in place of MPICH and runs the tests of communication, of the sharded model, of endings
# and of the examples, in a folder of its own (default: build/openmpi):
#   openmpi.sh [FOLDER [TARGET]...]
# Needs Open MPI's mpicxx.openmpi and mpiexec.openmpi (Debian: apt-get install libopenmpi-dev; where MPICH is there too,
# `update-alternatives --set mpi /usr/bin/mpicc.mpich` keeps it the one that other builds find). Installs nothing itself.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/openmpi}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(mfsdp-train hello_owner example_regression example_own_optimizer example_fused_and_frozen
  example_mesh failing_rank pmpi_bytes test_comm test_fsdp)
for tool in mpicxx.openmpi mpicc.openmpi mpiexec.openmpi; do
  command -v "$tool" >/dev/null || { echo "openmpi: $tool is missing: apt-get install libopenmpi-dev" >&2 && exit 2; }
done
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMATRIXFSDP_BUILD_TESTS=ON -DMATRIXFSDP_WARNINGS_AS_ERRORS=ON \
  -DMPI_CXX_COMPILER=mpicxx.openmpi -DMPI_C_COMPILER=mpicc.openmpi -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.openmpi)"
cmake --build "$folder" --target "${targets[@]}"
# More ranks than cores, and root in a container, are refused by Open MPI unless it is told.
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
ctest --test-dir "$folder" --output-on-failure --no-tests=error -j 1 -R '^examples|^mpi\.(comm|fsdp)\.np[1234]$|^mpi\.comm_endings'

#!/usr/bin/env bash
# run.sh for a build with shared libraries: shared.sh <build tree> <folder> <mpiexec>. Compilers, flags and dependencies
# are those of the build tree, so that ccache, where it is used, has all objects already.
set -euo pipefail
build=$1 work=$2 mpiexec=$3 here=$(cd "$(dirname "$0")" && pwd)
settings=()
for name in CMAKE_CXX_COMPILER CMAKE_C_COMPILER CMAKE_CXX_FLAGS CMAKE_BUILD_TYPE CMAKE_CXX_FLAGS_RELWITHDEBINFO \
  CMAKE_CXX_COMPILER_LAUNCHER CMAKE_PREFIX_PATH Kokkos_ROOT MPI_CXX_COMPILER MPI_C_COMPILER MATRIXFSDP_WARNINGS_AS_ERRORS \
  MATRIXFSDP_ENABLE_NCCL; do
  value=$(sed -n "s/^$name:[A-Z]*=//p" "$build/CMakeCache.txt")
  [ -z "$value" ] || settings+=("-D$name=$value")
done
cmake -S "$here/../.." -B "$work/library" -G Ninja -DBUILD_SHARED_LIBS=ON "${settings[@]}"
cmake --build "$work/library"
ls "$work"/library/libmatrixfsdp_fsdp.so >/dev/null
! ls "$work"/library/libmatrixfsdp_fsdp.a 2>/dev/null
bash "$here/run.sh" "$work/library" "$work/consumer" "$mpiexec"

#!/usr/bin/env bash
# Installs the Debian 12 packages that building, testing and the quickstart need; does nothing where all are there.
# On other systems (Spack, modules) it only says so: bring MPI, Kokkos, HDF5, BLAS, fmt, CLI11, nlohmann-json and xxHash.
set -euo pipefail

packages=(
  g++ cmake ninja-build
  mpich libmpich-dev libtrilinos-kokkos-dev libhdf5-dev libopenblas-dev libdnnl-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev libxxhash-dev libgtest-dev
  hdf5-tools python3-venv  # other programs that read checkpoints, for their tests
  ccache  # for the test of shared libraries, which builds everything once more
  iproute2 slurmctld slurmd slurm-client munge  # emulated nodes, and a Slurm of the tests' own (tests/slurm)
  dict-foldoc  # real English text for the quickstart
  doxygen  # target docs, and the test that every public name is documented
)

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "setup: not a Debian system; taking MPI, Kokkos, HDF5, BLAS, fmt, CLI11, nlohmann-json, xxHash as they are" >&2
  exit 0
fi
missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
  [ "$status" = "install ok installed" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ]; then
  echo "setup: these packages are missing, and only root can install them: ${missing[*]}" >&2
  exit 2
fi
echo "setup: installing ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
# Slurm and munge are for the tests, which start their own: no service begins to run on this machine.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod +x "$policy"
fi
apt-get update -qq >&2
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

#!/usr/bin/env bash
# Installs the Debian 12 packages that building, testing and the quickstart need; does nothing where all are there.
# On other systems (Spack, modules) it only says so: bring MPI, Kokkos, HDF5, BLAS, fmt, CLI11, nlohmann-json and xxHash.
set -euo pipefail

packages=(
  g++ cmake ninja-build
  mpich libmpich-dev libtrilinos-kokkos-dev libhdf5-dev libopenblas-dev libdnnl-dev
  libcli11-dev nlohmann-json3-dev libfmt-dev libxxhash-dev libgtest-dev
  hdf5-tools python3-venv  # other programs that read checkpoints, for their tests
  dict-foldoc  # real English text for the quickstart
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
apt-get update -qq >&2
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null

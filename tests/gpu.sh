#!/usr/bin/env bash
# Checks everything that needs CUDA devices, on one node, and packs what it found into one file to send back:
#   bash tests/gpu.sh [FOLDER]
# FOLDER (default: build/gpu-report) is emptied; the file is FOLDER.tar.gz, and its name is the last line. Wanted: a Kokkos
# built for CUDA in Kokkos_ROOT, CUDA 12 or newer, NCCL 2.18 or newer (NCCL_ROOT), and what apps/setup_debian.sh installs,
# which this does not call. It builds with the preset cuda, in build/cuda. Parts that cannot run say why, and the others go
# on. Exit code: 0 nothing failed, 1 a part failed.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=${1:-build/gpu-report}
rm -rf "$folder" "$folder.tar.gz"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
bin=build/cuda/bin
failed=0
built=no
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1

tell() {
  echo "gpu: $*" | tee -a "$folder/summary.txt"
}

# part NAME COMMAND...: at most three hours; what it says goes to NAME.log
part() {
  local name=$1 code=0 begin=$SECONDS skipped=0
  shift
  if [ "$devices" -eq 0 ]; then
    tell "$name: skipped: no device"
    return
  fi
  case $name in
    configure | build) ;;
    *)
      if [ $built = no ]; then
        tell "$name: skipped: nothing was built"
        return
      fi ;;
  esac
  echo "\$ $*" >"$folder/$name.log"
  timeout --kill-after=30 10800 "$@" >>"$folder/$name.log" 2>&1 || code=$?
  # A test that skips itself is none that has passed.
  skipped=$(grep -c '\*\*\*Skipped' "$folder/$name.log" || true)
  if [ $code -eq 0 ]; then
    tell "$name: ok, $((SECONDS - begin)) s$([ "$skipped" -eq 0 ] || echo ", but $skipped tests were skipped")"
    [ "$name" != build ] || built=yes
  else
    failed=1
    tell "$name: FAILED with exit code $code, $((SECONDS - begin)) s; the end of $name.log:"
    tail -n 15 "$folder/$name.log" | sed 's/^/gpu:   /' | tee -a "$folder/summary.txt"
  fi
}

# show COMMAND...: what a machine says of itself, which may be that it does not know the command
show() {
  {
    echo "\$ $*"
    timeout 60 "$@" || echo "exit code $?"
    echo
  } >>"$folder/machine.txt" 2>&1
}

show uname -srm
show git rev-parse HEAD
show git status --short
show nvidia-smi
show nvidia-smi topo -m
show nvcc --version
show cmake --version
show mpiexec --version
show sh -c 'echo "Kokkos_ROOT=$Kokkos_ROOT NCCL_ROOT=$NCCL_ROOT CUDA_HOME=$CUDA_HOME"'
show sh -c 'cat "$Kokkos_ROOT"/lib*/cmake/Kokkos/KokkosConfigCommon.cmake | grep -E "DEVICES|ARCH|OPTIONS"'
devices=$(timeout 60 nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)
tell "machine: $devices CUDA devices"

part configure cmake --preset cuda
part build cmake --build --preset cuda -j "$(nproc)"
part version mpiexec -n 1 "$bin/mfsdp-train" --version
part gpu-tests ctest --preset cuda -L gpu --output-junit "$folder/gpu-tests.xml"
part tests ctest --preset cuda -LE gpu --output-junit "$folder/tests.xml"
# Steps of Muon on the device against a trainer of plain loops on the host (tests/support/oracle).
part host-reference ctest --preset cuda -R '^mpi\.training' -V
run=(--data README.md --model gpt2 --layers 4 --hidden 256 --heads 4 --seq-len 128 --batch-size "$((8 * (devices > 1 ? devices : 2)))"
  --steps 100 --sample-tokens 0)
part train mpiexec -n 1 "$bin/mfsdp-train" "${run[@]}" --verify --metrics "$folder/train.jsonl"
part train-bfloat16 mpiexec -n 1 "$bin/mfsdp-train" "${run[@]}" --compute-dtype bfloat16 --ns-dtype bfloat16 \
  --metrics "$folder/train-bfloat16.jsonl"
part train-tf32 mpiexec -n 1 "$bin/mfsdp-train" "${run[@]}" --math tf32 --metrics "$folder/train-tf32.jsonl"
if [ "$devices" -eq 1 ]; then
  tell "nccl: skipped: one device, expected two or more"
else
  part nccl-tests mpiexec -n "$devices" "$bin/test_nccl_gpu"
  part nccl-train mpiexec -n "$devices" "$bin/mfsdp-train" "${run[@]}" --backend nccl \
    --verify --metrics "$folder/nccl-train.jsonl"
fi
part speeds mpiexec -n 1 "$bin/mfsdp-bench" newton-schulz --dtype float32 bfloat16 --json

[ ! -f build/cuda/CMakeCache.txt ] || cp build/cuda/CMakeCache.txt "$folder"
tar -czf "$folder.tar.gz" -C "$(dirname "$folder")" "$(basename "$folder")"
echo "$folder.tar.gz"
exit $failed

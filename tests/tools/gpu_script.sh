#!/usr/bin/env bash
# tests/gpu.sh with programs of our own in the place of nvidia-smi, cmake, ctest and mpiexec, so that no device is needed
# and none is used: gpu_script.sh <source tree> <folder>
set -euo pipefail
root=$1
folder=$2
rm -rf "$folder"
mkdir -p "$folder/fake"

fail() {
  echo "gpu_script: $*" >&2
  exit 1
}

# fake NAME: prints its arguments, and ends with the exit code that the file fail_NAME has for them
for name in nvidia-smi cmake ctest mpiexec nvcc; do
  cat >"$folder/fake/$name" <<FAKE
#!/usr/bin/env bash
echo "$name \$*" >>"$folder/calls"
[ "$name" != nvidia-smi ] || cat "$folder/devices"
echo "this is $name"
if [ -f "$folder/fail_$name" ] && [[ "\$*" == *"\$(cat "$folder/fail_$name")"* ]]; then exit 3; fi
FAKE
  chmod +x "$folder/fake/$name"
done

# check NAME CODE [TEXT]...: runs the script, whose exit code must be CODE and whose summary must have each TEXT
check() {
  local name=$1 expected=$2 code=0
  shift 2
  : >"$folder/calls"
  PATH="$folder/fake:$PATH" bash "$root/tests/gpu.sh" "$folder/$name" >"$folder/$name.out" 2>&1 || code=$?
  [ $code -eq "$expected" ] || { cat "$folder/$name.out" >&2; fail "$name: exit code $code, expected $expected"; }
  [ "$(tail -n 1 "$folder/$name.out")" = "$folder/$name.tar.gz" ] || fail "$name: the last line does not name the file"
  tar -xzOf "$folder/$name.tar.gz" "$name/summary.txt" >"$folder/$name.summary"
  tar -tzf "$folder/$name.tar.gz" | grep "^$name/machine.txt$" >"$folder/found" || fail "$name: machine.txt is missing"
  for text in "$@"; do
    grep -qF -- "$text" "$folder/$name.summary" || { cat "$folder/$name.summary" >&2; fail "$name: nothing says '$text'"; }
  done
}

echo "No devices were found" >"$folder/devices"
check none 0 "machine: 0 CUDA devices" "configure: skipped: no device" "build: skipped: no device" \
  "gpu-tests: skipped: no device" "tests: skipped: no device" "host-reference: skipped: no device" \
  "train: skipped: no device" "nccl-train: skipped: no device"
! grep -q "^ctest\|^cmake --preset" "$folder/calls" || fail "none: something was built or run"

printf 'GPU 0: Some (UUID: GPU-1)\nGPU 1: Some (UUID: GPU-2)\n' >"$folder/devices"
echo "--build" >"$folder/fail_cmake"
check broken 1 "configure: ok" "build: FAILED with exit code 3" "this is cmake" "gpu-tests: skipped: nothing was built" \
  "train: skipped: nothing was built"
rm "$folder/fail_cmake"

echo "-L gpu" >"$folder/fail_ctest"
check two 1 "machine: 2 CUDA devices" "build: ok" "gpu-tests: FAILED with exit code 3" "tests: ok" \
  "host-reference: ok" "train: ok" "nccl-tests: ok" "nccl-train: ok"
grep -q "^mpiexec -n 2 .*--backend nccl" "$folder/calls" || fail "two: NCCL was not run with both devices"
tar -tzf "$folder/two.tar.gz" | grep "^two/gpu-tests.log$" >"$folder/found" || fail "two: the log of a failed part is missing"
rm "$folder/fail_ctest"

echo "GPU 0: Some (UUID: GPU-1)" >"$folder/devices"
sed -i 's/^echo "this is ctest"$/echo "1 - some ***Skipped"/' "$folder/fake/ctest"
check one 0 "version: ok" "tests: ok" "but 1 tests were skipped" "nccl: skipped: one device"
echo "gpu_script: good"

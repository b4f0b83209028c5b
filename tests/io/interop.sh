#!/usr/bin/env bash
# What other programs see of a checkpoint: interop.sh hdf5_tools|python PROGRAM GOLDEN FOLDER. Exit code 77: they are
# not there, which CI does not forgive.
set -euo pipefail
reader="$1" program="$2" golden="$3/version_2/step_00000012" folder="$4"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

absent() {
  echo "interop: $*: this test saw nothing" >&2
  [[ -z "${CI:-}" ]] || exit 1
  exit 77
}

expect() { # text, words: each must be in it
  local text="$1" word
  shift
  for word in "$@"; do
    [[ "$text" == *"$word"* ]] || { printf "interop: '%s' is not in:\n%s\n" "$word" "$text" >&2; exit 1; }
  done
}

rm -rf "$folder"
mkdir -p "$folder"
case "$reader" in
  hdf5_tools)
    command -v h5dump > /dev/null && command -v h5ls > /dev/null || absent "h5dump or h5ls (hdf5-tools)"
    # A moved copy: links are relative.
    cp -r "$golden" "$folder/moved"
    expect "$(h5ls -r -E "$folder/moved/checkpoint.h5")" "/parameters/up" "Dataset {4, 3}" "/parameters/bias/segment.1" \
      "/optimizer/up/momentum"
    expect "$(h5dump -d /parameters/up "$folder/moved/checkpoint.h5")" "H5T_IEEE_F32LE" "( 4, 3 )" "float32" "1.1875, 2.1875"
    expect "$(h5dump -d /optimizer/up/momentum "$folder/moved/rank_00000.h5" "$folder/moved/rank_00001.h5" 2>&1 || true)" "muon"
    ;;
  python)
    # The one of tests/run.sh first.
    for python in "$here/../../build/python/bin/python" python3 /usr/bin/python3; do
      if "$python" -c "import numpy, h5py, safetensors" 2> /dev/null; then
        "$python" "$here/interop.py" "$program" "$golden" "$folder"
        exit
      fi
    done
    absent "Python with numpy, h5py and safetensors"
    ;;
  *) echo "interop: '$reader': expected hdf5_tools or python" >&2; exit 2 ;;
esac

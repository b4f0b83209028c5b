#!/usr/bin/env bash
# Runs clang-tidy with the checks of .clang-tidy over src, io, apps and the public headers; any warning fails.
#   tidy.sh [build folder [regular expression of source paths]]
# Needs what apps/setup_debian.sh installs, and clang-tidy (Debian: apt-get install clang-tidy). Installs nothing itself,
# and builds nothing: the native preset's compile commands are enough. CLANG_TIDY and RUN_CLANG_TIDY name other versions.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
build=${1:-build/native}
paths=${2:-"^$root/(src|io|apps)/.*\\.cpp\$"}
tidy=${CLANG_TIDY:-clang-tidy}
runner=${RUN_CLANG_TIDY:-run-clang-tidy}

for tool in "$tidy" "$runner"; do
  command -v "$tool" >/dev/null || {
    echo "tidy: $tool is missing: apt-get install clang-tidy" >&2
    exit 2
  }
done
cmake --preset native -B "$build" >/dev/null
log=$build/tidy.log
code=0
"$runner" -clang-tidy-binary "$tidy" -p "$build" -j "$(nproc)" -quiet "$paths" >"$log" 2>&1 || code=$?
files=$(grep -c "^$tidy\\b\\|^[^ ]*clang-tidy[^ ]* " "$log" || true)
if [ "$files" -eq 0 ]; then
  cat "$log"
  echo "tidy: no source file matches $paths" >&2
  exit 2
fi
# A header's warning comes once for each source that includes it.
warnings=$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -E '^/.*: (warning|error): ' | sed "s|^$root/||" | sort -u || true)
if [ -n "$warnings" ] || [ "$code" -ne 0 ]; then
  echo "$warnings"
  echo "tidy: failed; $files files; details in $log" >&2
  exit 1
fi
echo "tidy: $files files are clean"

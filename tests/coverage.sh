#!/usr/bin/env bash
# Line coverage of src, io and include by the whole test suite: coverage.sh [build folder]
# Builds the coverage preset, runs the suite, prints covered and all lines per folder and in total, and fails where a
# test fails or the total is below 90 %. Details, line by line: <build folder>/coverage/index.html.
# Needs what apps/setup_debian.sh installs, and gcovr >= 5 (Debian: apt-get install gcovr; elsewhere: pip install gcovr).
# Installs nothing itself.
set -euo pipefail
cd "$(dirname "$0")/.."
least=90
build=${1:-build/coverage}

command -v gcovr >/dev/null || {
  echo "coverage: gcovr is missing: apt-get install gcovr (Debian) or pip install gcovr" >&2
  exit 2
}
cmake --preset coverage -B "$build"
cmake --build "$build"
# Counts of earlier runs would add to those of this one.
find "$build" -name '*.gcda' -delete
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
ctest --test-dir "$build" --output-on-failure --no-tests=error --timeout 900 -j "$(nproc)"

mkdir -p "$build/coverage"
gcovr --root . --object-directory "$build" --filter 'src/' --filter 'io/' --filter 'include/' -j "$(nproc)" \
  --csv "$build/coverage/lines.csv" --html-details "$build/coverage/index.html" "$build"

# Columns of the table: 1 file, 2 lines, 3 covered lines. Folders are modules: include/matrixfsdp/core, src/core, ...
awk -F, -v least="$least" '
  function row(name) {
    return sprintf("%-32s %6d of %6d lines %6.1f %%", name, covered[name], lines[name], 100 * covered[name] / lines[name])
  }
  NR > 1 && $2 > 0 {
    depth = split($1, part, "/")
    folder = part[1]
    for (i = 2; i < depth && i <= (part[1] == "include" ? 3 : 2); ++i) folder = folder "/" part[i]
    lines[folder] += $2; covered[folder] += $3
    lines["total"] += $2; covered["total"] += $3
  }
  END {
    if (lines["total"] == 0) { print "coverage: no counted line"; exit 1 }
    for (folder in lines) if (folder != "total") print row(folder) | "sort"
    close("sort")
    print row("total")
    if (100 * covered["total"] < least * lines["total"]) { printf "coverage: below %d %%\n", least; exit 1 }
  }
' "$build/coverage/lines.csv"

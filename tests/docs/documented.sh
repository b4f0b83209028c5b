#!/usr/bin/env bash
# Every public name of the headers is documented: documented.sh DOXYFILE FOLDER. Exit code 77: doxygen is not there, which
# CI does not forgive. That the check finds what it should is tried first, on a header of its own.
set -euo pipefail
doxyfile="$1" folder="$2"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

if ! command -v doxygen > /dev/null; then
  echo "docs: doxygen is missing (apps/setup_debian.sh installs it): this test saw nothing" >&2
  [[ -z "${CI:-}" ]] || exit 1
  exit 77
fi

undocumented() { # output folder, more settings: a line for each name without documentation, and for each mistake in it
  local out="$1"
  mkdir -p "$out"
  {
    cat "$doxyfile"
    printf '%s\n' "OUTPUT_DIRECTORY = \"$out\"" "WARN_LOGFILE = \"$out/warnings.txt\"" "GENERATE_XML = YES" "${@:2}"
  } | doxygen -
  cat "$out/warnings.txt"
  awk -f "$here/undocumented.awk" "$out"/xml/*.xml | sort -u
}

rm -rf "$folder"
found="$(undocumented "$folder/self_test" "INPUT = \"$here/bad.hpp\"" "USE_MDFILE_AS_MAINPAGE =" "GENERATE_HTML = NO")"
for name in "Compound matrixfsdp::Bare" "bare_function()" "bare_member" "operator==" "Member BareEnum" \
  "matrixfsdp::Color::bare_value"; do
  [[ "$found" == *"$name"* ]] || { echo "docs: the check does not find $name; it found:" "$found" >&2; exit 1; }
done
if grep -E "hidden|documented_" <<< "$found" >&2; then
  echo "docs: the check finds the names above, which are documented or private" >&2
  exit 1
fi

found="$(undocumented "$folder/all")"
if [[ -n "$found" ]]; then
  printf '%s\n' "$found" "docs: $(wc -l <<< "$found") lines above: expected a documentation of every public name" >&2
  exit 1
fi
grep -q "<title>MatrixFSDP" "$folder/all/html/index.html" || { echo "docs: no main page in $folder/all/html" >&2; exit 1; }

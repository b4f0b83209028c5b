#!/usr/bin/env bash
# Seeded faults: applies each small fault of tests/faults/*.fault to a copy of the tree, one at a time, and expects the
# tests that it names to turn red. A fault that stays green is a hole in the suite.
#
# A fault in a file, its texts word for word:
#   fault NAME          unique
#   file PATH           of the tree
#   build TARGET...     what must be built anew
#   tests REGEX         CTest tests (ctest -R) of which one at least must fail
#   find                lines that must occur exactly once in the file, else the code has moved on and the script fails;
#                       without the indentation of the first, where that may change
#   ...
#   replace             lines that take their place, perhaps none
#   ...
#   end
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"

usage() {
  cat <<TEXT
bash tests/faults/run.sh [--only NAME]... [--full] [--list] [FOLDER]
  --only NAME  this fault only (may be repeated)
  --full       run the whole suite for a fault that its own tests do not find
  --list       name the faults and the files they touch, see that each still applies to this tree, and end
  FOLDER       where the copy and its build live (default: build/faults); kept, so that a second run is fast
Prints a table: fault, red or GREEN, seconds, first failing test. Exit code: 0 all red, 1 some are not, 2 an error.
TEXT
}

fail() {
  echo "faults: $*" >&2
  exit 2
}

only=()
full=0
list=0
folder="$root/build/faults"
while (($# > 0)); do
  case "$1" in
    --only) (($# > 1)) || fail "--only: expected the name of a fault"; only+=("$2"); shift ;;
    --full) full=1 ;;
    --list) list=1 ;;
    --help | -h) usage; exit 0 ;;
    -*) fail "option '$1': expected --only, --full or --list" ;;
    *) folder="$1" ;;
  esac
  shift
done

# --- the faults -------------------------------------------------------------------------------------------------------

names=()
declare -A file build tests find_text replacement
read_faults() { # a .fault file
  local line section="" name="" number=0
  while IFS= read -r line || [[ -n "$line" ]]; do
    number=$((number + 1))
    case "$section" in
      find)
        if [[ "$line" == replace ]]; then section=replace; else find_text[$name]+="$line"$'\n'; fi
        continue ;;
      replace)
        if [[ "$line" == end ]]; then section=""; else replacement[$name]+="$line"$'\n'; fi
        continue ;;
    esac
    case "$line" in
      "" | "#"*) ;;
      "fault "*)
        name="${line#fault }"
        [[ -z "${file[$name]+set}" ]] || fail "$1:$number: fault '$name' is there twice"
        names+=("$name")
        file[$name]="" build[$name]="" tests[$name]="" find_text[$name]="" replacement[$name]="" ;;
      "file "*) file[$name]="${line#file }" ;;
      "build "*) build[$name]="${line#build }" ;;
      "tests "*) tests[$name]="${line#tests }" ;;
      find)
        [[ -n "${file[$name]}" && -n "${build[$name]}" && -n "${tests[$name]}" ]] ||
          fail "$1:$number: fault '$name': expected file, build and tests first"
        section="find" ;;
      *) fail "$1:$number: '$line': expected fault, file, build, tests or find" ;;
    esac
  done < "$1"
  [[ -z "$section" ]] || fail "$1: fault '$name' has no end"
}
for each in "$root"/tests/faults/*.fault; do read_faults "$each"; done

if ((${#only[@]} > 0)); then
  for name in "${only[@]}"; do
    [[ -n "${file[$name]+set}" ]] || fail "--only '$name': expected one of: ${names[*]}"
  done
  names=("${only[@]}")
fi
# Sets `original` and `seeded`: the file as it is under `base`, and with the fault. Fails where the searched text is not
# there exactly once.
seed() {
  local rest
  original="$(cat "$base/${file[$1]}" && echo .)" || fail "fault '$1': no file ${file[$1]}"
  original="${original%.}"
  [[ -n "${find_text[$1]}" && "$original" == *"${find_text[$1]}"* ]] ||
    fail "fault '$1': ${file[$1]} does not have the searched lines; expected them once"
  rest="${original#*"${find_text[$1]}"}"
  [[ "$rest" != *"${find_text[$1]}"* ]] ||
    fail "fault '$1': ${file[$1]} has the searched lines more than once; expected them once"
  seeded="${original%%"${find_text[$1]}"*}${replacement[$1]}$rest"
}

if ((list)); then
  base="$root"
  for name in "${names[@]}"; do
    seed "$name"
    printf '%-48s %s\n' "$name" "${file[$name]}"
  done
  exit 0
fi

# --- the copy ---------------------------------------------------------------------------------------------------------

mkdir -p "$folder"
folder="$(cd "$folder" && pwd)"
tree="$folder/tree"
objects="$folder/objects"
log="$folder/log"
exec 9> "$folder/lock"
flock -n 9 || fail "'$folder': another run is at work there"

# Content decides, so that what an interrupted run left is put right, and nothing else is built again.
copy_tree() {
  local path
  local -A wanted=()
  while IFS= read -r -d '' path; do
    [[ -f "$root/$path" ]] || continue
    wanted[$path]=1
    cmp -s "$root/$path" "$tree/$path" && continue
    mkdir -p "$tree/$(dirname "$path")"
    cp "$root/$path" "$tree/$path"
  done < <(git -C "$root" ls-files -z --cached --others --exclude-standard)
  while IFS= read -r -d '' path; do
    [[ -n "${wanted[${path#"$tree/"}]+set}" ]] || rm "$path"
  done < <(find "$tree" -type f -print0)
}

touched=""
restore() {
  [[ -n "$touched" ]] || return 0
  printf '%s' "$original" > "$tree/$touched"
  touched=""
}
trap restore EXIT
trap 'exit 2' INT TERM

# --- builds and tests -------------------------------------------------------------------------------------------------

jobs="$(nproc)"  # before OMP_NUM_THREADS, which it obeys
export CCACHE_BASEDIR="$folder" CCACHE_NOHASHDIR=1
export OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1
export GTEST_FAIL_FAST=1  # the first red test of a program is enough: the next ones may wait for their deadlines again

compile() { # targets; all when there are none
  if (($# > 0)); then set -- --target "$@"; fi
  cmake --build "$objects" -j "$jobs" "$@" > "$log" 2>&1 9>&-
}

# A hang ends in the time-out of its test. The first red test is enough.
run_tests() { # ctest arguments
  (cd "$objects" && ctest -j "$jobs" --timeout 120 --stop-on-failure --no-tests=error --output-on-failure "$@") > "$log" 2>&1 9>&-
}

# The CTest test that failed, and where it runs many, the first of those.
first_failure() {
  local test inner
  test="$(sed -nE 's/^ *[0-9]+\/[0-9]+ Test +#[0-9]+: ([^ ]+) \.*\*+ ?(Failed|Timeout|Exception|Not Run|Subprocess).*/\1 (\2)/p' "$log" | head -n 1)"
  test="${test/ (Failed)/}"
  inner="$(sed -nE 's/^.*\[  FAILED  \] ([A-Za-z_0-9/]+\.[A-Za-z_0-9/]+).*/\1/p' "$log" | head -n 1)"
  [[ -z "$inner" || "$test" == *"$inner"* ]] || test+=": $inner"
  echo "$test"
}

row() { printf '%-48s | %-16s | %4s | %s\n' "$@"; }

echo "faults: ${#names[@]} in $folder" >&2
copy_tree
base="$tree"
for name in "${names[@]}"; do seed "$name"; done
launcher=()
if command -v ccache > /dev/null; then launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache); fi
# The native preset, with a folder of its own for the build.
(cd "$tree" && cmake --preset native -B "$objects" "${launcher[@]}") > "$log" 2>&1 || fail "configure: see $log"

targets=()
declare -A selections=()
for name in "${names[@]}"; do
  for target in ${build[$name]}; do
    [[ " ${targets[*]} " == *" $target "* ]] || targets+=("$target")
  done
  selections[${tests[$name]}]=1
done
if ((full)); then targets=(); fi
compile "${targets[@]}" || fail "the unchanged tree does not build: see $log"
for name in "${names[@]}"; do
  count="$(cd "$objects" && ctest -N -R "${tests[$name]}" | sed -n 's/^Total Tests: //p')"
  ((count > 0)) || fail "fault '$name': no test matches '${tests[$name]}'"
done
if ((full)); then run_tests || fail "the unchanged tree is not green: $(first_failure); see $log"; fi
for selection in "${!selections[@]}"; do  # together they have more parentheses than a regular expression of CTest may
  run_tests -R "$selection" || fail "the unchanged tree is not green: $(first_failure); see $log"
done
echo "faults: the unchanged tree is green" >&2

not_red=0
row fault result s "first failing test"
for name in "${names[@]}"; do
  start=$SECONDS
  seed "$name"
  touched="${file[$name]}"
  printf '%s' "$seeded" > "$tree/$touched"
  read -ra targets <<< "${build[$name]}"
  result=GREEN
  failing=""
  if ! compile "${targets[@]}"; then
    result="does not compile"
    failing="$(grep -m 1 -E 'error' "$log" || true)"
  elif ! run_tests -R "${tests[$name]}"; then
    result=red
  elif ((full)); then
    if ! compile; then result="does not compile"; elif ! run_tests; then result=red; fi
  fi
  if [[ "$result" == red ]]; then failing="$(first_failure)"; else not_red=$((not_red + 1)); fi
  restore
  row "$name" "$result" "$((SECONDS - start))" "$failing"
done
echo "faults: $((${#names[@]} - not_red)) of ${#names[@]} are red" >&2
((not_red == 0))

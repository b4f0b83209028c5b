#!/usr/bin/env bash
# Coverage-guided fuzzing of the readers of manifests and safetensors, with Clang's libFuzzer, AddressSanitizer and UBSan.
# A finding is written to FOLDER and ends the run with an exit code that is not 0.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
case "${1:-}" in
  manifest | safetensors) target="$1" ;;
  *) echo "bash tests/fuzz/run.sh manifest|safetensors [SECONDS (60)] [FOLDER (build/fuzz)]" >&2; exit 2 ;;
esac
seconds="${2:-60}"
folder="${3:-$root/build/fuzz}"
CXX="${CXX:-clang++}" CC="${CC:-clang}" cmake -S "$root" -B "$folder/objects" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DMATRIXFSDP_BUILD_APPS=OFF -DMATRIXFSDP_BUILD_FUZZERS=ON \
  -DCMAKE_CXX_FLAGS="-O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined" > /dev/null
cmake --build "$folder/objects" -j "$(nproc)" --target "fuzz_$target" >&2
mkdir -p "$folder/$target"
"$folder/objects/bin/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=20000 -print_final_stats=1 \
  -artifact_prefix="$folder/" "$folder/$target" "$root/tests/fuzz/corpus/$target"

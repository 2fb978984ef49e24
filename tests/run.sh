#!/usr/bin/env bash
# Every test: installs what is missing, builds, runs. What .ci/run calls.
#
#   tests/run.sh            everything: release, Rust, clang-tidy, sanitizers, fuzzing
#   tests/run.sh --quick    the release build and its tests only
#
# Output is in build/logs; the end of it is shown where something fails. The last line is
# "N passed, N failed, N skipped", over all.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/phases.sh

quick=no
case "${1:-}" in
  '') ;;
  --quick) quick=yes ;;
  *)
    echo "run.sh: unknown flag '$1'; there is --quick" >&2
    exit 2
    ;;
esac
jobs=$(nproc)
# What was compiled or checked in one clone need not be in the next one.
caches=${XDG_CACHE_HOME:-${HOME:-$PWD/build}/.cache}
export CCACHE_DIR="${CCACHE_DIR:-$caches/ccache}" CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export QUIRE_TIDY_CACHE="${QUIRE_TIDY_CACHE:-$caches/quire-tidy}"
cmake_flags=(-DBUILD_TESTING=ON)
export CARGO_TARGET_DIR=$PWD/build/rust
if [ "${CI:-}" = true ]; then
  CARGO_TARGET_DIR=$caches/quire-rust
  cmake_flags+=("-DQUIRE_RUST_TARGET_DIR=$CARGO_TARGET_DIR")
fi
export CTEST_OUTPUT_ON_FAILURE=1
failed_steps=()
passed=0 failed=0 skipped=0

# step NAME COMMAND...: one check among several: the others run even if it fails.
step() {
  logged "$@" || failed_steps+=("$1")
}

# tests PRESET [CTEST FLAGS]: runs ctest, shows its summary, adds to the counts.
tests() {
  local preset=$1 log="build/logs/ctest-$1.log" rc=0
  shift
  timeout --foreground 1500 ctest --test-dir "build/$preset" -j "$jobs" --no-tests=error "$@" \
    >"$log" 2>&1 </dev/null || rc=$?
  if [ "$rc" -ne 0 ]; then
    failed_steps+=("ctest $preset")
    # What the failed tests said, then the list of them.
    grep -nE '\[  FAILED  \]|^(FAIL|ERROR):|: Failure$|\*\*\*|Error' "$log" | tail -n 60 >&2
    echo "  all of it: $log" >&2
  fi
  sed -n '/tests passed/,$p' "$log"
  passed=$((passed + $(grep -cE '^ *[0-9]+/[0-9]+ Test.* Passed ' "$log" || true)))
  skipped=$((skipped + $(grep -cE '^ *[0-9]+/[0-9]+ Test.*\*\*\*Skipped' "$log" || true)))
  failed=$((failed + $(grep -cE '^ *[0-9]+/[0-9]+ Test.*(\*\*\*(Failed|Timeout|Exc|Not Run))' \
    "$log" || true)))
}

# sanitized PRESET LABELS TARGET...: builds these and runs the tests that have one of the labels,
# under a sanitizer. Tests on the real model are skipped by name: sanitizers slow arithmetic
# tenfold, and the tiny models take the same paths.
sanitized() {
  local preset=$1 labels=$2
  shift 2
  logged "configure-$preset" cmake --preset "$preset" "${cmake_flags[@]}" \
    -DQUIRE_SMOLLM2=none || return 1
  logged "build-$preset" cmake --build "build/$preset" --target "$@" || return 1
  tests "$preset" -L "^($labels)\$"
}

phase "packages: what deploy/packages.txt lists" "1 min, at once where all are there"
deploy/install.sh build model test

phase "model: SmolLM2-135M-Instruct, 98 MB" "10 s, at once where it is there"
deploy/fetch_model.sh >/dev/null

phase "schemas: Kubernetes' own, for deploy/kubernetes" "10 s, at once where they are there"
tests/deploy/fetch_schemas.sh >/dev/null

phase "build: release, with tests" "8 min on 2 cores, 1 min with a warm ccache"
logged configure cmake --preset release "${cmake_flags[@]}"
logged build cmake --build build/release

if [ "$quick" = no ]; then
  phase "Rust: format and lint of server/text" "1 min, then seconds"
  rust=(--manifest-path server/text/Cargo.toml)
  step cargo-fmt cargo fmt "${rust[@]}" --check
  step cargo-clippy cargo clippy --release --locked --all-targets "${rust[@]}" -- -D warnings

  phase "clang-tidy: as far as its time goes, the rest next time" "4 min, then seconds"
  step clang-tidy /usr/bin/python3 tests/clang_tidy.py --budget-s 240
  tail -n 1 build/logs/clang-tidy.log
fi

phase "tests: release" "3 min"
tests release

if [ "$quick" = no ]; then
  phase "tests: address and undefined-behaviour sanitizers" "4 min"
  sanitized asan "kernels|paged_kv|scheduler|sim|engine|server|cli|text|fuzz" \
    tests/{kernels,paged_kv,scheduler,sim,engine,server,fuzz}/all || failed_steps+=("asan build")
  phase "tests: thread sanitizer, where there are threads" "4 min"
  sanitized tsan threads threaded_tests || failed_steps+=("tsan build")

  phase "fuzz: a minute for each target, in tests/fuzz" "8 min on 2 cores, half of it to build"
  step configure-fuzz cmake --preset fuzz "${cmake_flags[@]}"
  step build-fuzz cmake --build build/fuzz --target fuzz
  step fuzz tests/fuzz/fuzz.sh
  cat build/logs/fuzz.log
fi

phase_report
if [ "${#failed_steps[@]}" -gt 0 ]; then
  printf 'FAILED: %s\n' "${failed_steps[@]}"
  # A step that is no ctest entry counts as one failure, so that the counts tell the truth.
  [ "$failed" -gt 0 ] || failed=${#failed_steps[@]}
fi
echo "$passed passed, $failed failed, $skipped skipped"
[ "${#failed_steps[@]}" -eq 0 ]

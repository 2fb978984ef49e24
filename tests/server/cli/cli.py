"""What the tests of the command line share: running the binary, a server of our own, golden data.

Standard library only. ctest sets the environment; without it the paths of a release build hold.
"""

import fcntl
import json
import math
import os
import re
import signal
import struct
import subprocess
import termios
import threading
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
# The suite's own variables. They leave the environment here, because `quire` refuses a QUIRE_
# variable that it does not know.
SETTINGS = {name: os.environ.pop(name) for name in list(os.environ)
            if name.startswith("QUIRE_") and name != "QUIRE_CPU_ISA"}
BINARY = SETTINGS.get("QUIRE_BINARY", os.path.join(ROOT, "build", "release", "quire"))
DATA = SETTINGS.get("QUIRE_TEST_DATA", os.path.join(ROOT, "tests", "golden"))
GOLDEN = SETTINGS.get("QUIRE_GOLDEN", os.path.join(ROOT, "..", "shared", "golden"))
SMOLLM2 = SETTINGS.get(
    "QUIRE_SMOLLM2", os.path.join(ROOT, "build", "models", "SmolLM2-135M-Instruct.Q4_1.gguf"))
TINY = os.path.join(DATA, "models", "llama_mha")  # random weights, no tokenizer
BYTE_MODEL = os.path.join(DATA, "gguf_types", "BF16.gguf")  # random weights, byte-level tokenizer
SMALL_KV = ["--kv-cache", "16MiB"]  # memory that any machine has
TIMEOUT_S = 120  # nothing takes this long, unless it hangs

OK, INTERNAL, USAGE, MODEL_FILES, RESOURCES, UNREACHABLE, REFUSED, INTERRUPTED = (
    0, 1, 2, 3, 4, 5, 6, 130)


class Result:
    """What a command left behind."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        """The one line on stdout."""
        lines = self.out.splitlines()
        assert len(lines) == 1, f"expected one line on stdout, got {lines}\nstderr: {self.err}"
        return json.loads(lines[0])

    def json_lines(self):
        return [json.loads(line) for line in self.out.split("\n") if line]


def run(*args, stdin="", env=None):
    done = subprocess.run([BINARY, *args], input=stdin.encode(), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=TIMEOUT_S,
                          env={**os.environ, **(env or {})})
    return Result(done.returncode, done.stdout.decode(), done.stderr.decode())


def run_lines(*args, lines):
    """A bulk command over `lines`; its results, one a line."""
    result = run(*args, stdin="".join(json.dumps(line) + "\n" for line in lines))
    assert result.code == OK, f"exit code {result.code}: {result.err}"
    results = result.json_lines()
    assert len(results) == len(lines), f"{len(results)} results of {len(lines)} lines"
    return results


class Serving:
    """`quire serve` on a free port, ready inside the `with`; .address is where."""

    def __init__(self, model, *args, drain_delay="0", kv_cache="16MiB",
                 listen="127.0.0.1:0"):
        self.command = [BINARY, "serve", model, "--listen", listen, "--metrics-listen",
                        "127.0.0.1:0", "--drain-delay", drain_delay, "--kv-cache", kv_cache,
                        *args]
        self.log = []
        self.grown = threading.Condition()

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.address = re.search(r"listening on ([\d.]+:\d+)",
                                 self.wait_for("listening on ")).group(1)
        self.summary = json.loads(self.wait_for('"message":"serving '))
        # A pipe that nobody reads would stop the server once it is full.
        self.reader = threading.Thread(target=self._read_log)
        self.reader.start()
        return self

    def wait_for(self, part):
        """Reads the log up to a line with `part`; only before the `with` is entered."""
        while True:
            line = self.process.stderr.readline()
            assert line, f"no {part!r} in the log: {''.join(self.log)}"
            self.log.append(line)
            if part in line:
                return line

    def _read_log(self):
        for line in self.process.stderr:
            with self.grown:
                self.log.append(line)
                self.grown.notify_all()

    def wait_in_log(self, part):
        """Waits until the running server logs `part`."""
        with self.grown:
            assert self.grown.wait_for(lambda: any(part in line for line in self.log), TIMEOUT_S)

    def stop(self, signal_number=signal.SIGTERM):
        """Sends the signal, waits, and returns the exit code."""
        self.process.send_signal(signal_number)
        code = self.process.wait(TIMEOUT_S)
        self.reader.join()
        return code

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.reader.join()
        self.process.stderr.close()


def read_jsonl(*path):
    # Lines end at \n only: strings may hold U+2028.
    with open(os.path.join(*path), encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file.read().split("\n") if line]


def read_safetensors(path):
    """name -> (shape, flat list of numbers); F32 and I32 only."""
    with open(path, "rb") as file:
        header_size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(header_size))
        data = file.read()
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        letter = {"F32": "f", "I32": "i"}[entry["dtype"]]
        numbers = struct.unpack(f"<{(end - begin) // 4}{letter}", data[begin:end])
        tensors[name] = (entry["shape"], numbers)
    return tensors


def rows(tensor):
    shape, numbers = tensor
    return [numbers[i * shape[-1]:(i + 1) * shape[-1]] for i in range(shape[0])]


def log_softmax(row):
    largest = max(row)
    log_sum = largest + math.log(math.fsum(math.exp(x - largest) for x in row))
    return [x - log_sum for x in row]


def golden_folders(kind, needed_file):
    """(name, path) of all golden folders of a kind: ours, then others'."""
    found = {}
    for base in (DATA, GOLDEN):
        folder = os.path.join(base, kind)
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if os.path.exists(os.path.join(folder, name, needed_file)):
                found.setdefault(name, os.path.join(folder, name))
    return sorted(found.items())


def make_controlling_terminal(fd):
    """For a child in a session of its own: Ctrl-C typed on `fd` is its SIGINT."""
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def needs(path, name):
    return unittest.skipUnless(os.path.exists(path), f"{name} is not there: {path}")


def main():
    unittest.main(verbosity=2)

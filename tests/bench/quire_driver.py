#!/usr/bin/env python3
"""Runs the tests of shared/peers on Quire, for its compare.py: JSON lines as other drivers print.

    python3 compare.py --quire 'python3 tests/bench/quire_driver.py --prefix {prefix} \\
        --model {model} --weights {weights} --tests {tests} --seed {seed}'

Tests, prompts and figures come from common.py: on PYTHONPATH, or in the folder that --peers names.
A server for each test, as for llama.cpp, with room for what the test asks; all through gRPC. The
client is `quire bench`: native, because it shares the cores with the server (0.1 ms of CPU for each
token of 64 streams).
"""

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BINARY = os.path.join(ROOT, "build", "release", "quire")
QUANT = {"bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}
START_S = 120  # a server that has not answered by then is broken
TEST_S = 1800  # likewise a test
# Room beside what the test asks, as the other drivers leave.
SPARE_TOKENS = 32


def find_peers():
    """Puts the folder of common.py on the path, where it is not."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--peers")
    folder = parser.parse_known_args()[0].peers
    if folder is None and "PYTHONPATH" not in os.environ:
        folder = os.path.join(ROOT, "..", "shared", "peers")
    if folder is not None:
        sys.path.insert(0, os.path.abspath(folder))


find_peers()
try:
    import common  # noqa: E402
    from http_client import free_port, run_tests  # noqa: E402
except ImportError as error:
    sys.exit(f"quire_driver.py: {error}; name the folder of common.py with --peers or PYTHONPATH")


def child_environment():
    """`quire` refuses QUIRE_ variables that it does not know, such as those of our tests."""
    return {name: value for name, value in os.environ.items()
            if not name.startswith("QUIRE_") or name == "QUIRE_CPU_ISA"}


class Server:
    """`quire serve` for one test, and its client; what run_tests asks of a server."""

    def __init__(self, args, test):
        self.binary, self.environment = args.binary, child_environment()
        model = args.prefix / f"models/{args.model}-{QUANT[args.weights]}.gguf"
        self.address = f"127.0.0.1:{free_port()}"
        command = [
            self.binary, "serve", str(model), "--listen", self.address, "--metrics-listen", "",
            "--threads", str(common.THREADS), "--max-num-seqs", str(test.requests),
            "--kv-cache", str(self.kv_bytes(model, test)), "--drain-delay", "0", "--log-level",
            "warn", *shlex.split(args.serve_flags)]
        self.process = subprocess.Popen(command, env=self.environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL)

    def kv_bytes(self, model, test):
        context = max(test.context, common.WARMUP.context) + SPARE_TOKENS
        inspected = subprocess.run(
            [self.binary, "inspect", str(model), "--json", "--context", str(context),
             "--sequences", str(test.requests + 1)], check=True, stdout=subprocess.PIPE,
            env=self.environment)
        return json.loads(inspected.stdout)["memory"]["kv_pool_bytes"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()

    def serve(self, prompts, gen):
        """All at once: when it began, when each one's output came, how many tokens each got."""
        with tempfile.TemporaryDirectory() as folder:
            asked, told = os.path.join(folder, "prompts"), os.path.join(folder, "times")
            with open(asked, "w", encoding="utf-8") as file:
                for ids in prompts:
                    file.write(json.dumps({"ids": ids}) + "\n")
            client = subprocess.run(
                [self.binary, "bench", "--address", self.address, "--wait", f"{START_S}s",
                 "--prompts", asked, "--new-tokens", str(gen), "--concurrency",
                 str(len(prompts)), "--warmup", "0", "--max-time", f"{TEST_S}s", "--times", told],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=self.environment)
            if client.returncode:
                raise RuntimeError(f"quire bench: {client.stderr.decode()}")
            with open(told, encoding="utf-8") as file:
                lines = [json.loads(line) for line in file]
        return (lines[0]["begin_s"], [line["times_s"] for line in lines],
                [sum(line["counts"]) for line in lines])

    def first_token(self):
        """Seconds from the server's start to its first token."""
        _, times, _ = self.serve(common.WARMUP.prompts(0), common.WARMUP.gen)
        return common.age(self.process.pid) - (time.monotonic() - times[0][0])

    def measure(self, args, name):
        test = common.TESTS[name]
        prompts = test.prompts(args.seed)
        if test.primed:
            self.serve([prompts[0][:test.shared]], 1)
        return {**common.figures(name, *self.serve(prompts, test.gen)),
                "rss_mb": common.peak_mb(self.process.pid)}


def main():
    args = common.arguments(
        __doc__,
        ("--peers", dict(help="the folder of common.py (default: shared/peers beside the tree)")),
        ("--binary", dict(help="the program (default: QUIRE_BINARY, else build/release/quire)",
                          default=os.environ.get("QUIRE_BINARY", BINARY))),
        ("--serve-flags", dict(default="", help="more flags for `quire serve`")),
    )
    run_tests("quire", args, lambda test: Server(args, test))


if __name__ == "__main__":
    main()

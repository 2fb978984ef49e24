#!/usr/bin/env python3
"""What does a token cost beside its arithmetic? SmolLM2 through gRPC, with `quire bench` as client.

    /usr/bin/python3 tests/bench/stream_cost_bench.py [STREAMS ...]      (default: 1 8)

Of each step, by the server's own metrics: the time in its phases but `run`. Of each token, by
/proc: processor time of all threads but the engine's and its compute workers', less what the idle
server takes. Where all cores compute, the thread that `tell` wakes runs instead of one of them, so
the time of `tell` has it in it.
"""

import json
import os
import re
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from quire_server import BINARY, SMOLLM2, Server, wait_until  # noqa: E402

NEW_TOKENS = 512
KV_CACHE = "256M"  # soon touched
IDLE_S = 2
ENGINE_THREADS = ("quire-engine", "quire-compute")


class Costs:
    """Processor time by name of thread, in seconds; steps and microseconds by phase."""

    def __init__(self, server):
        self.at = time.monotonic()
        pid = server.process.pid
        # Of the whole process, with threads that have ended: its CPU clock (clock_getcpuclockid).
        self.all_threads = time.clock_gettime((~pid << 3) | 2)
        self.by_name = {}
        for task in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as file:
                    name = file.read().strip()
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as file:
                    seconds = int(file.read().split()[0]) / 1e9
            except OSError:
                continue  # it has ended
            self.by_name[name] = self.by_name.get(name, 0) + seconds
        with urllib.request.urlopen(f"http://{server.metrics_address}/metrics") as page:
            text = page.read().decode()
        found = re.findall(r'^quire_step_seconds_(sum|count)\{.*?phase="(\w+)".*?\} (\S+)$', text,
                           re.MULTILINE)
        self.steps = {(kind, phase): float(value) for kind, phase, value in found}

    def outside(self, before):
        """Seconds of all threads since `before` but the engine's."""
        engine = sum(self.by_name[name] - before.by_name[name] for name in ENGINE_THREADS
                     if name in self.by_name)
        return self.all_threads - before.all_threads - engine

    def us_per_step(self, before, phase):
        steps = self.steps["count", phase] - before.steps["count", phase]
        return 1e6 * (self.steps["sum", phase] - before.steps["sum", phase]) / steps


def generate(server, streams):
    """Tokens that the streams got."""
    told = subprocess.run(
        [BINARY, "bench", "--address", server.address, "--concurrency", str(streams), "--requests",
         str(streams), "--prompt-tokens", "32", "--new-tokens", str(NEW_TOKENS), "--warmup", "0",
         "--calibrate", "false", "--json"], check=True, stdout=subprocess.PIPE).stdout
    return sum(json.loads(line)["generated_tokens"] for line in told.decode().splitlines())


def main():
    with Server(SMOLLM2, "--kv-cache", KV_CACHE) as server:
        generate(server, 8)
        wait_until(lambda: "quire-touch" not in Costs(server).by_name, "touched memory")
        first = Costs(server)
        time.sleep(IDLE_S)
        last = Costs(server)
        idle = last.outside(first) / (last.at - first.at)
        for streams in [int(arg) for arg in sys.argv[1:]] or [1, 8]:
            before = Costs(server)
            tokens = generate(server, streams)
            after = Costs(server)
            outside = after.outside(before) - idle * (after.at - before.at)
            phases = {p: after.us_per_step(before, p) for p in ("plan", "run", "commit", "tell")}
            print(f"{streams} streams, {tokens} tokens: outside the engine "
                  f"{1e6 * outside / tokens:.1f} us of processor time per token; a step: " +
                  ", ".join(f"{name} {us:.1f}" for name, us in phases.items()) + " us")
            shares = {name: 1e6 * (after.by_name[name] - before.by_name.get(name, 0)) / tokens
                      for name in after.by_name}
            print("   by thread, us per token: " +
                  ", ".join(f"{name} {us:.1f}" for name, us in
                            sorted(shares.items(), key=lambda item: -item[1]) if us >= 0.5))


main()

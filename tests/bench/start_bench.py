#!/usr/bin/env python3
"""From exec of `quire serve` to the first delta over gRPC: median of 10, after one that warms up.

    /usr/bin/python3 tests/bench/start_bench.py

The client asks as soon as the port is open and asks again while the answer is MODEL_LOADING.
"""

import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import grpc  # noqa: E402

from quire_server import BINARY, SMOLLM2, generation_pb2_grpc, pb  # noqa: E402

RUNS = 10
LIMIT_S = 60


def first_delta(address):
    """Returns when the first delta has come."""
    request = pb.GenerateRequest(text="The capital of France is",
                                 params=pb.GenerationParams(temperature=0, max_tokens=4))
    with grpc.insecure_channel(address) as channel:
        stub = generation_pb2_grpc.GenerationServiceStub(channel)
        while True:
            try:
                for response in stub.Generate(request, timeout=LIMIT_S):
                    if response.WhichOneof("event") == "delta":
                        return
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise
            time.sleep(0.005)


def one_run():
    with tempfile.TemporaryFile("w+") as log:
        start = time.monotonic()
        server = subprocess.Popen([BINARY, "serve", SMOLLM2, "--listen", "127.0.0.1:0",
                                   "--metrics-listen", "", "--drain-delay", "0"],
                                  stdin=subprocess.DEVNULL, stderr=log)
        try:
            address = None
            while address is None and time.monotonic() < start + LIMIT_S:
                time.sleep(0.002)
                log.seek(0)
                address = re.search(r"127\.0\.0\.1:[1-9]\d*", log.read())
            first_delta(address.group(0))
            return time.monotonic() - start
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(LIMIT_S)


def main():
    one_run()
    seconds = sorted(one_run() for _ in range(RUNS))
    print(f"exec to first delta: median {statistics.median(seconds):.2f} s, "
          f"{seconds[0]:.2f} to {seconds[-1]:.2f} s, {RUNS} runs")


main()

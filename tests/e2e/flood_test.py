"""10 000 requests at once against the default limits: each has one outcome, health is answered
meanwhile, memory stays bounded, and afterwards all is as it was.
"""

import collections
import json
import os
import subprocess
import sys
import threading
import time
import unittest

import grpc

import raw_http2 as h2
from quire_server import (Server, error_details_pb2, greedy, health_pb2, health_pb2_grpc, pb,
                          status_pb2, tiny_model, wait_until)

NUM_CLIENTS, NUM_CONNECTIONS, NUM_CALLS = 2, 5, 1000  # processes, of each, on each
NUM_REQUESTS = NUM_CLIENTS * NUM_CONNECTIONS * NUM_CALLS
HEALTH_EVERY_S = 0.05
HEALTH_S = 10  # an answer to a check that takes longer is none
FLOOD_S = 400  # for all of it, clients included, on a machine that does much else
REQUEST = greedy(range(5, 37), 16)

# What may be held at once for the flood, beside what the server had before:
# - as many streams as a connection may have open (128), on each of ten connections, until each is
#   refused: what gRPC keeps of a call, 24 KiB;
# - of these, max_concurrent_requests (1024) get as far as a Generation and a sequence: 64 KiB.
MAX_GROWTH_BYTES = NUM_CLIENTS * NUM_CONNECTIONS * 128 * (24 << 10) + 1024 * (64 << 10)
# gRPC starts threads as work comes, at most two for each core, and keeps them.
MAX_MORE_THREADS = 2 * os.cpu_count()


class HealthWatch:
    """Checks health all the time, on a connection of its own, and remembers how long it took."""

    def __init__(self, address):
        self.channel = grpc.insecure_channel(address, options=[
            ("grpc.use_local_subchannel_pool", 1)])
        self.health = health_pb2_grpc.HealthStub(self.channel)
        self.seconds, self.errors = [], []
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self._check()  # the connection is there
        self.thread.start()

    def _check(self):
        started = time.monotonic()
        try:
            response = self.health.Check(health_pb2.HealthCheckRequest(), timeout=HEALTH_S)
            assert response.status == health_pb2.HealthCheckResponse.SERVING
        except (grpc.RpcError, AssertionError) as error:
            self.errors.append(repr(error))
        self.seconds.append(time.monotonic() - started)

    def _run(self):
        while not self.done.wait(HEALTH_EVERY_S):
            self._check()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.channel.close()
        self.seconds.sort()
        p50, p99 = (self.seconds[int(len(self.seconds) * p)] for p in [0.5, 0.99])
        print(f"{len(self.seconds)} health checks: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} "
              f"ms, at most {self.seconds[-1] * 1e3:.1f} ms")


def outcome(code, message, details, pushback_ms, responses):
    """In words, so that what is alike can be counted."""
    responses = [pb.GenerateResponse.FromString(bytes.fromhex(r)) for r in responses]
    if code == "OK":
        assert responses[-1].WhichOneof("event") == "finished"
        return f"OK {[token for r in responses for token in r.delta.token_ids]}"
    info, retry = error_details_pb2.ErrorInfo(), error_details_pb2.RetryInfo()
    for packed in status_pb2.Status.FromString(bytes.fromhex(details)).details:
        assert packed.Unpack(info) or packed.Unpack(retry), packed
    return (f"{code} {info.reason or message} after {len(responses)} responses, retry after "
            f"{retry.retry_delay.seconds} s or {pushback_ms} ms")


class FloodTest(unittest.TestCase):
    def flood(self, server, num_clients, num_connections, num_calls):
        """What came out of it, and how often."""
        client = [sys.executable, os.path.join(os.path.dirname(__file__), "flood_client.py"),
                  server.address, h2.GENERATE, REQUEST.SerializeToString().hex(),
                  str(num_connections), str(num_calls), str(FLOOD_S)]
        clients = [subprocess.Popen(client, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    text=True) for _ in range(num_clients)]
        try:
            for client in clients:
                self.assertEqual(client.stdout.readline(), "ready\n")
            with HealthWatch(server.address) as health:
                started = time.monotonic()
                for client in clients:
                    client.stdin.write("go\n")
                    client.stdin.flush()
                lines = [client.stdout.readline() for client in clients]
                print(f"all {num_clients * num_connections * num_calls} are over after "
                      f"{time.monotonic() - started:.1f} s")
            self.assertEqual(health.errors, [])
            return collections.Counter(outcome(*one) for line in lines for one in json.loads(line))
        finally:
            for client in clients:
                client.kill()
                client.communicate()

    def test_every_one_of_ten_thousand_has_one_outcome_and_nothing_remains(self):
        # The clients share the machine: they may well be the slow ones.
        with Server(tiny_model(), "--kv-cache-bytes", "16MiB", "--slow-reader-timeout",
                    str(FLOOD_S)) as server:
            tokens = server.ask(REQUEST).tokens
            self.assertEqual(len(tokens), 16)
            before = server.peak_memory_bytes()
            num_fds, num_threads = server.num_fds(), server.num_threads()
            outcomes = self.flood(server, NUM_CLIENTS, NUM_CONNECTIONS, NUM_CALLS)
            served = f"OK {tokens}"
            for words, count in outcomes.items():
                print(f"{count:6} {'OK' if words == served else words}")
            growth = server.peak_memory_bytes() - before
            print(f"peak memory {before / 2**20:.1f} MiB before, {growth / 2**20:.1f} MiB more "
                  f"after; bound {MAX_GROWTH_BYTES / 2**20:.1f} MiB")
            self.assertEqual(sum(outcomes.values()), NUM_REQUESTS)
            self.assertLessEqual(set(outcomes), {
                served, "RESOURCE_EXHAUSTED QUEUE_FULL after 0 responses, retry after 1 s or "
                        "1000 ms"})
            # The first to come are served: what waits and what runs.
            self.assertGreaterEqual(outcomes[served], 512)
            self.assertLess(growth, MAX_GROWTH_BYTES)
            answer = server.ask(REQUEST)
            self.assertIsNone(answer.error)
            self.assertEqual(answer.tokens, tokens)
            wait_until(lambda: server.num_fds() <= num_fds, "file descriptors as before")
            print(f"{num_threads} threads before, {server.num_threads()} after")
            self.assertLessEqual(server.num_threads(), num_threads + MAX_MORE_THREADS)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.last_words()[1], 0, "blocks are held by nobody")

    def test_a_client_with_a_thousand_calls_on_one_connection_is_never_refused(self):
        """It waits with those that the connection has no streams for."""
        with Server(tiny_model(), "--kv-cache-bytes", "16MiB", "--slow-reader-timeout",
                    str(FLOOD_S)) as server:
            tokens = server.ask(REQUEST).tokens
            self.assertEqual(self.flood(server, 1, 1, 1000), {f"OK {tokens}": 1000})

    def test_a_flood_of_calls_reset_at_once_leaves_it_serving(self):
        """Of the memory it says the number only: it is gRPC's, which has no limit for this."""
        with Server(tiny_model(), "--kv-cache-bytes", "16MiB") as server:
            tokens = server.ask(REQUEST).tokens
            before = server.peak_memory_bytes()
            call = h2.message(REQUEST.SerializeToString())
            headers = h2.call_headers(h2.GENERATE)
            with h2.RawConnection(server.address) as raw:
                reader = threading.Thread(target=raw.read_until, args=[lambda _: False])
                reader.start()
                num_sent = 0
                try:
                    for stream in range(1, 40_001, 2):
                        raw.socket.sendall(
                            h2.frame(h2.HEADERS, h2.END_HEADERS, stream, headers)
                            + h2.frame(h2.DATA, h2.END_STREAM, stream, call)
                            + h2.frame(h2.RST_STREAM, 0, stream, b"\0\0\0\x08"))
                        num_sent += 1
                except OSError as error:
                    print(f"the server closed the connection: {error}")
                self.assertEqual(server.ask(REQUEST).tokens, tokens)
                raw.socket.shutdown(h2.socket.SHUT_RDWR)
                reader.join()
            print(f"{num_sent} calls reset: peak memory {before / 2**20:.1f} MiB before, "
                  f"{(server.peak_memory_bytes() - before) / 2**20:.1f} MiB more after")
            self.assertEqual(server.ask(REQUEST).tokens, tokens)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.last_words()[1], 0, "blocks are held by nobody")


if __name__ == "__main__":
    unittest.main()

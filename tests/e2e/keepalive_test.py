"""A minute of silence: healthy clients keep their connection, frozen ones are dropped.

All that has to wait waits at once, on one server. grpc-go (Debian's) is a client here too, where
it is installed.
"""

import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

import grpc

import raw_http2 as h2
from quire_server import (ANSWER_S, ROOT, WORK, Server, greedy, health_pb2, health_pb2_grpc,
                          tiny_model, wait_until)

SILENCE_S = 60
# Keepalive takes 30 s to ask and 20 s to give up.
DROPPED_S = 90
KEEPALIVE = [("grpc.keepalive_time_ms", 10_000), ("grpc.keepalive_timeout_ms", 20_000),
             ("grpc.keepalive_permit_without_calls", 1), ("grpc.http2.max_pings_without_data", 0),
             ("grpc.http2.min_time_between_pings_ms", 10_000)]
GO = shutil.which("go", path="/usr/bin")
GO_PATH = "/usr/share/gocode"  # where Debian keeps the sources of Go packages

# A client with a stream that it does not read and a connection without a call. It is stopped where
# it waits for its stdin.
FROZEN_CLIENT = """
import sys, grpc
address, request = sys.argv[1], bytes.fromhex(sys.argv[2])
options = [("grpc.use_local_subchannel_pool", 1), ("grpc.http2.lookahead_bytes", 1024),
           ("grpc.http2.bdp_probe", 0)]
idle, busy = (grpc.insecure_channel(address, options=options) for _ in range(2))
grpc.channel_ready_future(idle).result(60)
stream = busy.unary_stream(sys.argv[3])(request)
next(stream)
print("open", flush=True)
sys.stdin.read()
"""


def silent_client(address, options, is_streaming):
    """Says nothing for a minute. Returns the relay that saw it, which must be closed."""
    relay = h2.Relay(address)
    with grpc.insecure_channel(relay.address, options=[
            *options, ("grpc.use_local_subchannel_pool", 1)]) as channel:
        states, ended = [], threading.Event()
        channel.subscribe(states.append)
        health = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest()
        health.Check(request, timeout=ANSWER_S)
        if is_streaming:
            watch = health.Watch(request)
            assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
            watch.add_done_callback(lambda _: ended.set())
        ready = [grpc.ChannelConnectivity.READY]
        wait_until(lambda: states[-1:] == ready, "READY is told")
        states.clear()
        assert not ended.wait(SILENCE_S), f"the stream ended with {watch.code()}"
        response = health.Check(request, timeout=ANSWER_S)
        assert response.status == health_pb2.HealthCheckResponse.SERVING
        assert not states, states
        if is_streaming:
            watch.cancel()
    return relay


def frozen_client(server):
    """Freezes a client; how long its two connections and its stream outlive that, in seconds."""
    # Its answer does not fit into the windows, so that the stream lives until it is ended.
    request = greedy([5, 6, 7], 400, n=8, logprobs=20)
    request.request_id = "frozen"
    probe = greedy([5], 1)
    probe.request_id = "frozen"
    client = subprocess.Popen(
        [sys.executable, "-c", FROZEN_CLIENT, server.address, request.SerializeToString().hex(),
         h2.GENERATE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert client.stdout.readline() == "open\n"
        ports = h2.ports_of(client.pid) & h2.clients_of(server.address)
        assert len(ports) == 2, ports
        client.send_signal(signal.SIGSTOP)
        start = time.monotonic()
        assert server.ask(probe).error.code() == grpc.StatusCode.ALREADY_EXISTS
        wait_until(lambda: not ports & h2.clients_of(server.address), "connections dropped",
                   DROPPED_S)
        connections_s = time.monotonic() - start
        wait_until(lambda: server.ask(probe).error is None, "the stream ended", DROPPED_S)
        return connections_s, time.monotonic() - start
    finally:
        client.kill()
        client.communicate()


def go_client():
    """Builds the client in Go. Returns its path."""
    path = os.path.join(WORK, "go_keepalive")
    env = {**os.environ, "GO111MODULE": "off", "GOPATH": GO_PATH, "GOFLAGS": "", "GOROOT": ""}
    if not {"XDG_CACHE_HOME", "HOME", "GOCACHE"} & set(env):
        env["GOCACHE"] = os.path.join(WORK, "go_cache")
    subprocess.run([GO, "build", "-o", path, "."], check=True, env=env,
                   cwd=os.path.join(ROOT, "tests", "e2e", "go_keepalive"))
    return path


def silent_go_client(path, address, kind):
    """Runs it. Returns the relay that saw it, which must be closed, and what it said."""
    path = path.result()
    relay = h2.Relay(address)
    done = subprocess.run([path, relay.address, kind, f"{SILENCE_S}s"], capture_output=True,
                          text=True, check=False, timeout=SILENCE_S + 2 * ANSWER_S)
    return relay, done.stdout + done.stderr


class SilentMinuteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.has_go = GO is not None and os.path.isdir(GO_PATH + "/src/google.golang.org/grpc")
        cls.server = Server(tiny_model(), "--kv-cache-bytes", "16MiB", "--slow-reader-timeout",
                            "600")
        cls.addClassCleanup(cls.server.stop)
        pool = concurrent.futures.ThreadPoolExecutor(8)
        cls.addClassCleanup(pool.shutdown)
        address = cls.server.address
        cls.silent = {
            (name, is_streaming): pool.submit(silent_client, address, options, is_streaming)
            for name, options in [("keepalive", KEEPALIVE), ("defaults", [])]
            for is_streaming in [False, True]}
        if cls.has_go:
            go_path = pool.submit(go_client)
            cls.go = {kind: pool.submit(silent_go_client, go_path, address, kind)
                      for kind in ["idle", "stream"]}
        cls.frozen = pool.submit(frozen_client, cls.server)

    def assert_one_good_connection(self, relay, min_pings):
        with relay:
            print(f"pings of the client {relay.from_client[h2.PING]}, of the server "
                  f"{relay.from_server[h2.PING]}")
            self.assertEqual(relay.num_connections, 1)
            self.assertEqual(relay.from_server[h2.GOAWAY], 0)
            self.assertGreaterEqual(relay.from_client[h2.PING], min_pings)

    def test_grpcio_with_keepalive_survives_without_a_call(self):
        self.assert_one_good_connection(self.silent["keepalive", False].result(), 4)

    def test_grpcio_with_keepalive_survives_in_a_silent_stream(self):
        self.assert_one_good_connection(self.silent["keepalive", True].result(), 4)

    def test_grpcio_as_it_is_survives_without_a_call(self):
        self.assert_one_good_connection(self.silent["defaults", False].result(), 0)

    def test_grpcio_as_it_is_survives_in_a_silent_stream(self):
        self.assert_one_good_connection(self.silent["defaults", True].result(), 0)

    def go_survives(self, kind):
        if not self.has_go:
            self.skipTest("golang-go and golang-google-grpc-dev are not installed "
                          "(deploy/packages.txt)")
        relay, said = self.go[kind].result()
        self.assertEqual(said, "served again\n")
        self.assert_one_good_connection(relay, 4)

    def test_grpc_go_with_keepalive_survives_without_a_call(self):
        self.go_survives("idle")

    def test_grpc_go_with_keepalive_survives_in_a_silent_stream(self):
        self.go_survives("stream")

    def test_a_frozen_client_is_dropped_and_its_stream_ended(self):
        connections_s, stream_s = self.frozen.result()
        print(f"its connections were dropped after {connections_s:.1f} s, its stream ended after "
              f"{stream_s:.1f} s")
        self.assertLess(stream_s, DROPPED_S)
        self.assertTrue(self.server.is_serving())


if __name__ == "__main__":
    unittest.main()

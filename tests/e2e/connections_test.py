"""What clients may do to a connection, and what is answered: API limits, rudeness, overload."""

import concurrent.futures
import contextlib
import resource
import signal
import socket
import struct
import unittest

import grpc

import raw_http2 as h2
from quire_server import (ANSWER_S, Answer, Server, detail, error_details_pb2,
                          generation_pb2_grpc, greedy, pb, retry_after_s, tiny_model, wait_until)
from raw_http2 import GENERATE, RawConnection

MAX_METADATA_BYTES = 8 << 10
MAX_MESSAGE_BYTES = 4 << 20
SMALL_CACHE = ("--kv-cache-bytes", "16MiB")
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED


def tokens_of(frames):
    """The tokens in the answer of a raw call."""
    tokens = []
    for data in h2.messages(frames):
        tokens += pb.GenerateResponse.FromString(data).delta.token_ids
    return tokens


class SameServerTest(unittest.TestCase):
    """All against one server: after each test it still gives the same tokens, and in the end it
    has nothing left of them."""

    REQUEST = greedy([5, 6, 7], 24)
    LONG = greedy([5, 6, 8], 500)

    @classmethod
    def setUpClass(cls):
        cls.server = Server(tiny_model(), *SMALL_CACHE)
        cls.addClassCleanup(cls.end)
        cls.tokens = cls.server.ask(cls.REQUEST).tokens
        assert len(cls.tokens) == 24
        cls.num_fds = cls.server.num_fds()

    @classmethod
    def end(cls):
        """Whatever was asked of it, all blocks are free."""
        assert cls.server.stop() == 0, cls.server.log()[-4000:]
        _, held, total = cls.server.last_words()
        assert held == 0, f"{held} of {total} blocks are held by nobody"

    def tearDown(self):
        answer = self.server.ask(self.REQUEST)
        self.assertIsNone(answer.error)
        self.assertEqual(answer.tokens, self.tokens)
        wait_until(lambda: self.server.num_fds() <= self.num_fds,
                   "connections of clients that are gone are closed")

    def raw(self, **settings):
        return RawConnection(self.server.address, **settings)

    # ---- times ----

    def test_a_deadline_of_a_millisecond_passes_and_nothing_is_left(self):
        streams = [self.server.generation.Generate(self.LONG, timeout=0.001) for _ in range(200)]
        for stream in streams:
            self.assertEqual(Answer(stream).error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)

    def test_calls_cancelled_at_once_or_soon_leave_nothing(self):
        for after in range(3):
            streams = [self.server.generation.Generate(self.LONG, timeout=ANSWER_S)
                       for _ in range(50)]
            for stream in streams:
                for _ in range(after):
                    next(stream)
                stream.cancel()
            for stream in streams:
                self.assertEqual(stream.code(), grpc.StatusCode.CANCELLED)

    # ---- sizes ----

    def test_metadata_up_to_its_limit_is_served(self):
        # The limit counts 32 bytes for each entry, and those that gRPC adds.
        stream = self.server.generation.Generate(
            self.REQUEST, metadata=[("x-much", "m" * (MAX_METADATA_BYTES - 1024))],
            timeout=ANSWER_S)
        self.assertEqual(Answer(stream).tokens, self.tokens)

    def test_metadata_over_its_limit_is_refused_and_the_connection_stays(self):
        with h2.Relay(self.server.address) as relay, grpc.insecure_channel(
                relay.address) as channel:
            call = generation_pb2_grpc.GenerationServiceStub(channel).Generate
            for size in [MAX_METADATA_BYTES, 5 * MAX_METADATA_BYTES]:
                answer = Answer(call(self.REQUEST, metadata=[("x-much", "m" * size)],
                                     timeout=ANSWER_S))
                self.assertEqual(answer.error.code(), EXHAUSTED)
                self.assertEqual(answer.info().reason, "METADATA_TOO_LARGE")
                self.assertEqual(answer.info().metadata["limit"], str(MAX_METADATA_BYTES))
                self.assertEqual(Answer(call(self.REQUEST, timeout=ANSWER_S)).tokens, self.tokens)
            self.assertEqual(relay.num_connections, 1)

    def test_far_too_much_metadata_is_refused_by_grpc(self):
        # It costs the connection too, so one of its own.
        with grpc.insecure_channel(self.server.address, options=[
                ("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = generation_pb2_grpc.GenerationServiceStub(channel).Generate
            answer = Answer(call(self.REQUEST, metadata=[("x-much", "m" * (64 << 10))],
                                 timeout=ANSWER_S))
            self.assertEqual(answer.error.code(), EXHAUSTED)
            wait_until(lambda: Answer(call(self.REQUEST, timeout=ANSWER_S)).tokens == self.tokens,
                       "served on a new connection")

    def test_a_message_up_to_its_limit_gets_our_answer_and_a_larger_one_grpcs(self):
        request = pb.GenerateRequest(text="x")
        request.text = "x" * (MAX_MESSAGE_BYTES - request.ByteSize() - 2)
        while request.ByteSize() < MAX_MESSAGE_BYTES:
            request.text += "x"
        self.assertEqual(request.ByteSize(), MAX_MESSAGE_BYTES)
        answer = self.server.ask(request)
        self.assertEqual(answer.info().domain, "quire")
        self.assertNotEqual(answer.error.code(), EXHAUSTED)
        request.text += "x"
        answer = self.server.ask(request)
        self.assertEqual(answer.error.code(), EXHAUSTED)
        self.assertIn(str(MAX_MESSAGE_BYTES), answer.error.details())

    # ---- what is no call of ours ----

    def test_an_unknown_method_is_unimplemented(self):
        for path in ["/quire.v1.GenerationService/Nothing", "/no.such.Service/Generate", "/"]:
            call = self.server.channel.unary_unary(path)
            with self.assertRaises(grpc.RpcError) as refused:
                call(b"", timeout=ANSWER_S)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED, path)

    def test_reflection_lists_the_services(self):
        call = self.server.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        # A request in which list_services, field 7, is "".
        listed = next(call(iter([b"\x3a\x00"]), timeout=ANSWER_S))
        for name in ["GenerationService", "TokenizerService", "ModelService"]:
            self.assertIn(b"quire.v1." + name.encode(), listed)
        self.assertIn(b"grpc.health.v1.Health", listed)

    def test_bytes_that_are_no_http2_close_their_connection_only(self):
        for garbage in [b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
                        b"\x16\x03\x01\x00\xc8" + b"\x01" * 200,  # as TLS begins
                        b"\0" * 4096, bytes(range(256)) * 64,
                        h2.PREFACE + b"\xff" * 4096,
                        h2.PREFACE + h2.frame(h2.HEADERS, h2.END_HEADERS, 1, b"\xff" * 100)]:
            with self.subTest(garbage[:8]), socket.create_connection(
                    h2.to_address(self.server.address), ANSWER_S) as client:
                client.sendall(garbage)
                with contextlib.suppress(ConnectionResetError):
                    while client.recv(4096):
                        pass

    def test_connections_without_a_call_come_and_go(self):
        address = h2.to_address(self.server.address)
        with contextlib.ExitStack() as stack:
            for i in range(200):
                client = socket.create_connection(address, ANSWER_S)
                stack.enter_context(client)  # all stay until the last has come
                if i % 2:
                    client.sendall(h2.PREFACE + h2.frame(h2.SETTINGS, 0, 0))
            self.assertEqual(self.server.ask(self.REQUEST).tokens, self.tokens)
        for i in range(200):
            socket.create_connection(address, ANSWER_S).close()

    # ---- calls that are not as they should be ----

    def test_a_call_that_is_not_half_closed_is_served(self):
        with self.raw() as raw:
            raw.call(1, GENERATE, self.REQUEST.SerializeToString(), end_stream=False)
            self.assertEqual(tokens_of(raw.read_stream(1)), self.tokens)

    def test_a_connection_may_break_at_any_byte(self):
        headers = h2.frame(h2.HEADERS, h2.END_HEADERS, 1, h2.call_headers(GENERATE))
        data = h2.frame(h2.DATA, h2.END_STREAM, 1, h2.message(self.LONG.SerializeToString()))
        sent = headers + data
        cuts = [3, 9, 20, len(headers), len(headers) + 9, len(headers) + 12, len(sent) - 1,
                len(sent)]
        for cut in cuts:
            for is_reset in [False, True]:
                with self.subTest(cut=cut, is_reset=is_reset), self.raw() as raw:
                    raw.socket.sendall(sent[:cut])
                    if is_reset:  # instead of an orderly close
                        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                              struct.pack("ii", 1, 0))

    def test_a_connection_may_break_in_the_middle_of_an_answer(self):
        for _ in range(20):
            with self.raw() as raw:
                raw.call(1, GENERATE, self.LONG.SerializeToString())
                raw.read_until(lambda f: f.type == h2.DATA)

    def test_too_many_pings_cost_their_sender_the_connection(self):
        with self.raw() as raw:
            for i in range(10):
                raw.send(h2.PING, 0, 0, bytes([i] * 8))
            frames = raw.read_until(lambda f: f.type == h2.GOAWAY)
            self.assertIsNotNone(frames[-1])
            self.assertEqual(int.from_bytes(frames[-1].payload[4:8], "big"), h2.ENHANCE_YOUR_CALM)
            self.assertIsNone(raw.read_until(lambda f: False)[-1])


class EndTest(unittest.TestCase):
    def test_calls_without_their_message_do_not_keep_the_server_from_ending(self):
        with Server(tiny_model(), *SMALL_CACHE, "--drain-timeout", "1") as server:
            with RawConnection(server.address) as raw:
                for stream in range(1, 101, 2):
                    raw.send(h2.HEADERS, h2.END_HEADERS, stream, h2.call_headers(GENERATE))
                raw.send(h2.PING, 0, 0, b"all came")
                raw.read_until(lambda f: f.payload == b"all came")
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(server.process.wait(60), 0, server.log())


class OpenFilesTest(unittest.TestCase):
    def test_the_usual_limit_of_open_files_is_raised(self):
        """gRPC 1.51 never accepts a connection again once it had no descriptor for one."""
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
        try:
            server = Server(tiny_model(), *SMALL_CACHE)  # inherits it
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        with server, contextlib.ExitStack() as stack:
            for _ in range(200):
                stack.enter_context(
                    socket.create_connection(h2.to_address(server.address), ANSWER_S))
            wait_until(lambda: server.num_fds() > 200, "all are accepted")
            with grpc.insecure_channel(server.address, options=[
                    ("grpc.use_local_subchannel_pool", 1)]) as channel:
                answer = Answer(generation_pb2_grpc.GenerationServiceStub(channel).Generate(
                    greedy([5, 6, 7], 4), timeout=ANSWER_S))
                self.assertIsNone(answer.error)


class OverloadTest(unittest.TestCase):
    REQUEST = greedy([5, 6, 7], 24)

    def setUp(self):
        self.server = Server(tiny_model(), *SMALL_CACHE, "--max-concurrent-requests", "4",
                             "--slow-reader-timeout", "600")
        self.addCleanup(self.server.stop)
        self.tokens = self.server.ask(self.REQUEST).tokens

    @contextlib.contextmanager
    def held(self, count):
        """So many calls that stay open: none can get its first byte to its client."""
        with RawConnection(self.server.address, [(h2.INITIAL_WINDOW_SIZE, 0)]) as raw:
            for i in range(count):
                raw.call(2 * i + 1, GENERATE, self.REQUEST.SerializeToString())
            wanted = set(range(1, 2 * count, 2))
            raw.read_until(lambda f: f.type == h2.HEADERS and (
                wanted.discard(f.stream) or not wanted))
            yield raw

    def test_the_call_beyond_the_limit_is_told_when_to_try_again(self):
        with self.held(4):
            answer = self.server.ask(self.REQUEST)
            self.assertEqual(answer.error.code(), EXHAUSTED)
            self.assertEqual(answer.info().reason, "QUEUE_FULL")
            self.assertEqual(answer.info().metadata["limit"], "4")
            self.assertGreater(retry_after_s(answer.error), 0)
            self.assertTrue(self.server.is_serving())
        wait_until(lambda: self.server.ask(self.REQUEST).error is None,
                   "served when the others are gone")
        self.assertEqual(self.server.ask(self.REQUEST).tokens, self.tokens)

    def test_a_client_that_retries_waits_as_it_is_told_and_is_served(self):
        policy = """{"methodConfig": [{"name": [{}], "retryPolicy": {
            "maxAttempts": 5, "initialBackoff": "0.001s", "maxBackoff": "0.001s",
            "backoffMultiplier": 1, "retryableStatusCodes": ["RESOURCE_EXHAUSTED"]}}]}"""
        with h2.Relay(self.server.address) as relay, grpc.insecure_channel(
                relay.address, options=[("grpc.service_config", policy)]) as channel:
            call = generation_pb2_grpc.GenerationServiceStub(channel).Generate
            with self.held(4):
                stream = call(self.REQUEST, timeout=ANSWER_S)
                wait_until(lambda: relay.from_server[h2.HEADERS] >= 1, "refused once")
            answer = Answer(stream)
            self.assertIsNone(answer.error)
            self.assertEqual(answer.tokens, self.tokens)
            # With the client's own backoff all five would have gone by at once.
            print(f"{relay.from_client[h2.HEADERS]} attempts")

    def test_the_limit_is_told_to_clients(self):
        with RawConnection(self.server.address) as raw:
            settings = raw.read_until(lambda f: f.type == h2.SETTINGS)[-1].payload
            pairs = [struct.unpack(">HI", settings[i:i + 6]) for i in range(0, len(settings), 6)]
            self.assertIn((h2.MAX_CONCURRENT_STREAMS, 4), pairs)

    def test_a_client_that_ignores_the_limit_is_refused_by_us(self):
        """gRPC keeps to its own limit only once the peer has acknowledged it."""
        with RawConnection(self.server.address, [(h2.INITIAL_WINDOW_SIZE, 0)],
                           acknowledges=False) as raw:
            for stream in range(1, 41, 2):
                raw.call(stream, GENERATE, self.REQUEST.SerializeToString())
            for _ in range(16):
                refusal = raw.read_until(
                    lambda f: f.type == h2.HEADERS and f.flags & h2.END_STREAM)[-1]
                self.assertIsNotNone(refusal)
        wait_until(lambda: self.server.ask(self.REQUEST).error is None,
                   "served when the others are gone")

    def test_more_requests_than_may_wait_are_refused_and_the_others_served(self):
        with Server(tiny_model(), *SMALL_CACHE, "--max-num-seqs", "1", "--max-queued-requests",
                    "2") as server:
            with concurrent.futures.ThreadPoolExecutor(100) as pool:
                answers = list(pool.map(server.ask, [greedy([5, 6, 7], 400)] * 100))
            served = [a for a in answers if a.error is None]
            for answer in served:
                self.assertEqual(answer.tokens, served[0].tokens)
            for answer in answers:
                if answer.error is not None:
                    self.assertEqual(answer.info().reason, "QUEUE_FULL")
                    self.assertGreater(retry_after_s(answer.error), 0)
            print(f"{len(served)} of {len(answers)} served")
            self.assertGreaterEqual(len(served), 3)
            self.assertLess(len(served), 100)


class SlowReaderTest(unittest.TestCase):
    # More than any window: 8 choices of 400 tokens with 20 log-probabilities each.
    LARGE = greedy([5, 6, 7], 400, n=8, logprobs=20)

    def test_a_reader_that_does_not_read_is_ended_and_others_are_undisturbed(self):
        with Server(tiny_model(), *SMALL_CACHE, "--slow-reader-timeout", "3") as server:
            request = greedy([5, 6, 7], 100)
            tokens = server.ask(request).tokens
            with grpc.insecure_channel(server.address, options=[
                    ("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0),
                    ("grpc.use_local_subchannel_pool", 1)]) as channel:
                self.LARGE.request_id = "slow"
                slow = generation_pb2_grpc.GenerationServiceStub(channel).Generate(
                    self.LARGE, timeout=ANSWER_S)
                self.assertEqual(next(slow).WhichOneof("event"), "accepted")
                num_others = 0
                probe = greedy([5], 1)
                probe.request_id = "slow"  # refused for as long as the slow one lives
                while server.ask(probe).error is not None:
                    self.assertEqual(server.ask(request).tokens, tokens)
                    num_others += 1
                print(f"{num_others} other streams meanwhile")
                self.assertGreater(num_others, 0)
                # Reading on after all, it finds out why.
                with self.assertRaises(grpc.RpcError) as ended:
                    for _ in slow:
                        pass
                self.assertEqual(ended.exception.code(), EXHAUSTED)
                self.assertEqual(
                    detail(ended.exception, error_details_pb2.ErrorInfo).reason, "SLOW_CONSUMER")

    def test_a_reader_that_never_reads_is_cut_off(self):
        with Server(tiny_model(), *SMALL_CACHE, "--slow-reader-timeout", "0.5") as server:
            with RawConnection(server.address, [(h2.INITIAL_WINDOW_SIZE, 0)]) as raw:
                raw.call(1, GENERATE, self.LARGE.SerializeToString())
                self.assertEqual(h2.messages(raw.read_stream(1)), [])


if __name__ == "__main__":
    unittest.main()

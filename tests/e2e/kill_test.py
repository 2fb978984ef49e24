"""What ends the server in each of its states: exit codes, what clients see, a new start."""

import array
import contextlib
import fcntl
import os
import shutil
import signal
import tempfile
import termios
import threading
import time
import unittest

import grpc
from held_thread import HeldThread
from quire_server import (ANSWER_S, START_S, WORK, Server, greedy, smollm2, tiny_model,
                          wait_until)

LONG = 200  # tokens that a test waits for
ENDLESS = 1500  # tokens that no machine has computed before the test is done with them
PROMPT = [1000 + (7 * i) % 5000 for i in range(1000)]


def long_request(max_tokens, prompt=(1, 2, 3)):
    return greedy(list(prompt), max_tokens)


class Stream:
    """A request that runs while the test does something else."""

    def __init__(self, server, request):
        self._events = server.generation.Generate(request, timeout=ANSWER_S)
        self.seen = []

    def wait_for(self, kind):
        for event in self._events:
            self.seen.append(event)
            if event.WhichOneof("event") == kind:
                return
        raise AssertionError(f"the stream ended without {kind}: {self.seen}")

    def finish(self):
        """The rest of it: the status's code and the reason in its message, or OK."""
        try:
            self.seen += self._events
        except grpc.RpcError as error:
            return error.code().name, error.details().split(":")[0]
        return "OK", ""

    def cancel(self):
        self._events.cancel()

    def num_tokens(self):
        return sum(len(event.delta.token_ids) for event in self.seen)


def start(*flags, **kwargs):
    # Prompts in small chunks, so that a long one takes many steps.
    return Server(smollm2(), "--kv-cache", "64MiB", "--max-num-seqs", "8",
                  "--max-num-batched-tokens", "32", *flags, **kwargs)


def in_state(server, state, max_tokens=ENDLESS):
    """A stream of so many tokens that has brought the server into this state; None where there is
    none."""
    if state == "idle":
        return None
    clock = stream = Stream(server, long_request(ENDLESS if state == "prefill" else max_tokens))
    stream.wait_for("delta")
    if state == "prefill":
        # Another stream's tokens show that there were steps since this one was accepted.
        stream = Stream(server, long_request(max_tokens, PROMPT))
        stream.wait_for("accepted")
        for _ in range(3):
            clock.wait_for("delta")
        clock.cancel()
    if state == "draining":
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("draining")
    return stream


def wait_for_exit(server):
    server.process.wait(START_S)
    return server.process.returncode


class KillMatrixTest(unittest.TestCase):
    def test_while_loading_calls_are_told_so_and_a_signal_ends_at_once(self):
        with tempfile.TemporaryDirectory(prefix="loading.", dir=WORK) as folder:
            model = shutil.copytree(tiny_model(), os.path.join(folder, "model"))
            os.mkfifo(os.path.join(model, "tokenizer.json"))  # nobody writes: loading goes on
            for sent, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
                with self.subTest(sent), Server(model, wait=False) as server:
                    answer = server.ask(long_request(LONG))
                    self.assertEqual(answer.error.code(), grpc.StatusCode.UNAVAILABLE)
                    self.assertEqual(answer.info().reason, "MODEL_LOADING")
                    self.assertTrue(server.is_serving("liveness"))
                    self.assertFalse(server.is_serving())
                    server.process.send_signal(sent)
                    self.assertEqual(wait_for_exit(server), code)

    def test_a_first_signal_lets_what_runs_finish(self):
        for state in ("idle", "prefill", "decode"):
            with self.subTest(state), start("--drain-timeout", "100") as server:
                stream = in_state(server, state, LONG)
                server.process.send_signal(signal.SIGTERM)
                if stream is not None:
                    self.assertEqual(stream.finish(), ("OK", ""))
                    self.assertEqual(stream.num_tokens(), LONG)
                self.assertEqual(wait_for_exit(server), 0)

    def test_what_does_not_finish_in_time_is_told_draining(self):
        for state in ("prefill", "decode"):
            with self.subTest(state), start("--drain-timeout", "1ms") as server:
                stream = in_state(server, state)
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(stream.finish(), ("UNAVAILABLE", "DRAINING"))
                self.assertEqual(wait_for_exit(server), 0)

    def test_a_second_signal_ends_at_once(self):
        for state in ("idle", "draining"):
            with self.subTest(state), start("--drain-timeout", "100", drain_delay="100") as server:
                stream = in_state(server, state)
                if stream is None:
                    server.process.send_signal(signal.SIGTERM)
                    server.wait_for_log("draining")
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(wait_for_exit(server), 130)
                if stream is not None:
                    self.assertEqual(stream.finish()[0], "UNAVAILABLE")

    def test_killed_in_any_state_it_serves_again_on_the_same_port(self):
        for state in ("idle", "prefill", "decode", "draining"):
            with self.subTest(state):
                with start("--drain-timeout", "100") as server:
                    before = server.ask(long_request(20))
                    stream = in_state(server, state)
                    server.process.kill()
                    self.assertEqual(wait_for_exit(server), -signal.SIGKILL)
                    if stream is not None:
                        self.assertEqual(stream.finish()[0], "UNAVAILABLE")
                with start(listen=server.address) as again:
                    self.assertEqual(again.address, server.address)
                    self.assertEqual(again.ask(long_request(20)).tokens, before.tokens)


def wait_for_life(server, alive):
    wait_until(lambda: server.is_serving("liveness") == alive, f"alive: {alive}")


class StuckEngineTest(unittest.TestCase):
    def test_it_is_not_alive_until_it_moves_again(self):
        num_tokens = 1000
        with start("--liveness-timeout", "5s") as server:
            stream = in_state(server, "decode", num_tokens)
            held = HeldThread(server.process.pid, "quire-engine")
            wait_for_life(server, False)
            self.assertFalse(server.is_serving())
            server.wait_for_log("no answer within")  # the report comes after the change
            held.let_go()
            wait_for_life(server, True)
            self.assertTrue(server.is_serving())
            self.assertEqual(stream.finish(), ("OK", ""))
            self.assertEqual(stream.num_tokens(), num_tokens)
            log = server.log()
        self.assertIn("not alive (--liveness-timeout)", log)
        self.assertRegex(log, r"scheduler: 1 running, 0 waiting")
        self.assertRegex(log, r"thread \d+ quire-engine, state t\\n  no answer within")
        # A thread that waits for work tells where.
        self.assertRegex(log, r"thread \d+ quire-text, state S\\n  [^\"]*quire::WorkerPool::Work")

    def test_one_that_never_moves_again_ends_the_process_with_70(self):
        with start("--liveness-timeout", "4s", "--watchdog-timeout", "6s") as server:
            stream = in_state(server, "decode")
            ends = []
            reader = threading.Thread(target=lambda: ends.append(stream.finish()[0]))
            reader.start()
            held = HeldThread(server.process.pid, "quire-engine")
            held.reap()
            self.assertEqual(wait_for_exit(server), 70)
            reader.join(ANSWER_S)
            self.assertEqual(ends, ["UNAVAILABLE"])
            self.assertIn("giving up (--watchdog-timeout)", server.log())

    def test_a_drain_that_hangs_ends_too(self):
        with start("--liveness-timeout", "4s", "--watchdog-timeout", "6s",
                   "--drain-timeout", "1ms") as server:
            held = HeldThread(server.process.pid, "quire-engine")
            server.process.send_signal(signal.SIGTERM)
            held.reap()
            self.assertEqual(wait_for_exit(server), 70)

    def test_a_signal_gives_a_stuck_engine_no_more_time(self):
        liveness_s, watchdog_s = 6, 12
        with start("--liveness-timeout", str(liveness_s), "--watchdog-timeout", str(watchdog_s),
                   "--drain-timeout", "1ms") as server:
            held = HeldThread(server.process.pid, "quire-engine")
            since = time.monotonic()
            wait_for_life(server, False)
            server.process.send_signal(signal.SIGTERM)
            held.reap()
            self.assertEqual(wait_for_exit(server), 70)
            # Counted from the signal on it would be both of them, or more.
            self.assertLess(time.monotonic() - since, watchdog_s + liveness_s / 2)
            self.assertIn("draining", server.log())
            self.assertNotIn("moves again", server.log())


class UnreadServer(Server):
    """Its log goes into a pipe of one page, which is read while log() is called and else by nobody,
    as by a log shipper that hangs."""

    PIPE_BYTES = 4096

    def __init__(self, *args, **kwargs):
        self.read_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, self.PIPE_BYTES)
        os.set_blocking(self.read_end, False)
        self.text = b""
        try:
            super().__init__(*args, stderr=write_end, **kwargs)
        finally:
            os.close(write_end)

    def log(self):
        with contextlib.suppress(BlockingIOError):
            while got := os.read(self.read_end, self.PIPE_BYTES):
                self.text += got
        return self.text.decode()

    def is_full(self):
        """No line more has room: they are written as a whole."""
        pending = array.array("i", [0])
        fcntl.ioctl(self.read_end, termios.FIONREAD, pending)
        return pending[0] > self.PIPE_BYTES - 500

    def fill(self, num_requests):
        for i in range(num_requests):
            answer = self.ask(greedy([3, 4 + i % 100], 2))
            assert answer.error is None, answer.error
        wait_until(self.is_full, "a full pipe")

    def __exit__(self, *args):
        super().__exit__(*args)
        os.close(self.read_end)


class UnreadLogTest(unittest.TestCase):
    """A log that nobody reads."""

    def test_requests_are_answered_and_a_signal_drains(self):
        with UnreadServer(tiny_model(), "--kv-cache", "16MiB") as server:
            server.fill(500)
            self.assertTrue(server.is_serving())
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(wait_for_exit(server), 0)

    def test_what_waited_is_written_when_somebody_reads(self):
        with UnreadServer(tiny_model(), "--kv-cache", "16MiB") as server:
            server.fill(100)
            server.access_lines(100)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("drained: ")
            self.assertEqual(wait_for_exit(server), 0)
            self.assertEqual(len(server.access_lines()), 100)

    def test_a_second_signal_ends_at_once(self):
        with UnreadServer(tiny_model(), "--kv-cache", "16MiB", drain_delay="3600") as server:
            server.fill(50)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: not server.is_serving(), "not ready")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(wait_for_exit(server), 130)

    def test_a_stuck_engine_ends_the_process_with_70(self):
        with UnreadServer(tiny_model(), "--kv-cache", "16MiB", "--liveness-timeout", "2s",
                          "--watchdog-timeout", "4s") as server:
            server.fill(50)
            held = HeldThread(server.process.pid, "quire-engine")
            held.reap()
            self.assertEqual(wait_for_exit(server), 70)


if __name__ == "__main__":
    unittest.main()

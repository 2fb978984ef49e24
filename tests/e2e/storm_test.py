"""Storms against one process: what clients do to many streams at once, and what the server's own
end does to them. Each stream has one outcome, those that stay have the tokens that their requests
give alone, and blocks, streams, reactors and file descriptors are back to what they were.
"""

import collections
import contextlib
import random
import signal
import socket
import struct
import time
import unittest

import raw_http2 as h2
from at_rest import Counts, Rest, gauge, lines_of
from crowd import Call, Crowd, Truth, named, pool, prompt
from held_thread import HeldThread
from quire_server import ANSWER_S, Server, greedy, tiny_model, wait_until
from scrape import scrape_of

SEED = 20261130


class CancelTest(unittest.TestCase):
    """10 000 of them, in every state, from four connections."""

    NUM_CANCELS, NUM_STAY, NUM_CONNECTIONS, WIDTH = 10_000, 500, 4, 100
    # Few at once, prompts in many steps, hardly enough blocks: all states last.
    FLAGS = ["--max-num-seqs", "8", "--max-num-batched-tokens", "32", "--kv-cache-bytes", "512KiB",
             "--max-queued-prefill-tokens", "1000000", "--log-level", "debug"]
    STATES = ["sent", "accepted", "prefill", "decode", "end"]

    def call(self, rng, kind):
        """A call that its client leaves in this state, or so near to it as it can tell."""
        i = rng.randrange(1000)
        if kind == "sent":
            return self.long.call(i, 0, rng.randint(2, 60))
        if kind == "accepted":
            return self.long.call(i, 1)
        if kind == "prefill":  # first in the queue, and with no prefix that others have
            return Call(greedy(prompt(rng, 400), 20, priority=1), 1)
        if kind == "decode":
            return self.long.call(i, rng.randint(2, 12))
        if kind == "end":  # with the last token, or what comes then
            return self.short.call(i, 1 + len(self.short.call(i).alone) + rng.randint(0, 1))
        return rng.choice([self.short, self.long]).call(i)

    def test_ten_thousand_in_every_state_leave_nothing_and_disturb_nobody(self):
        rng = random.Random(SEED)
        print(f"seed {SEED}")
        with Server(tiny_model(), *self.FLAGS) as server:
            self.long = Truth(server, pool(rng, 40, (3, 40), (60, 100)))
            self.short = Truth(server, pool(rng, 40, (3, 20), (1, 6)))
            rest, counts = Rest(server), Counts(server)
            kinds = self.STATES * (self.NUM_CANCELS // len(self.STATES)) + ["stay"] * self.NUM_STAY
            rng.shuffle(kinds)
            calls = named("storm", [self.call(rng, kind) for kind in kinds])
            started = time.monotonic()
            with Crowd(server, calls, self.NUM_CONNECTIONS, self.WIDTH) as crowd:
                crowd.finish()
            print(f"{len(calls)} calls in {time.monotonic() - started:.1f} s")
            rest.wait()
            counted = counts.get()
            self.long.check_still(server)
            self.short.check_still(server)
            rest.wait()
            self.assertEqual(counts.total() - sum(counted.values()), 80, "none came late")
            self.assertEqual(gauge(server, "quire_log_lines_dropped_total"), 0)
            self.check_calls(kinds, calls)
            self.check_counts(kinds, calls, counted, *lines_of(server))
        self.assertEqual(server.stop(), 0)
        preemptions, held, _ = server.last_words()
        print(f"{preemptions} preemptions")
        self.assertEqual(held, 0, "blocks are held by nobody")

    def check_calls(self, kinds, calls):
        for kind, call in zip(kinds, calls):
            if kind == "stay":
                self.assertIsNone(call.answer().error)
                self.assertEqual(call.tokens, call.alone)
            else:
                self.assertIn(call.status, ["CANCELLED", "OK"])
                if kind != "prefill":
                    self.assertEqual(call.tokens, call.alone[:len(call.tokens)])
        self.assertEqual(sum(call.has_left for call in calls), self.NUM_CANCELS)

    def check_counts(self, kinds, calls, counted, lines, nameless):
        """The counters, the log and the clients agree about each call."""
        states, num_unnamed, told = collections.Counter(), 0, collections.Counter()
        for kind, call in zip(kinds, calls):
            line = lines.get(call.request.request_id)
            if line is None:  # gone before its message was there
                self.assertEqual((kind, call.responses), ("sent", []))
                num_unnamed += 1
                continue
            if kind == "stay" or call.status == "OK":
                self.assertEqual(line["status"], "OK")
            self.assertIn(line["status"], ["OK", "CANCELLED"])
            told[line["status"]] += 1
            if kind != "stay":
                states[self.state_of(line)] += 1
        told.update(line["status"] for line in nameless)
        print(f"{num_unnamed} were gone before their message was read, {len(nameless)} of them "
              f"seen; states of the others: {dict(states)}; counted: {counted}")
        self.assertLessEqual(len(nameless), num_unnamed)
        self.assertEqual(set(told), {"OK", "CANCELLED"})
        self.assertEqual(sum(n for (_, why), n in counted.items() if why == "length"), told["OK"])
        self.assertEqual(sum(n for (_, why), n in counted.items() if why == "CANCELLED"),
                         told["CANCELLED"])
        self.assertEqual(sum(counted.values()), told.total())
        for state in ["queue", "prefill", "decode", "done"]:
            self.assertGreaterEqual(states[state], 200, state)

    @staticmethod
    def state_of(line):
        if line["status"] == "OK":
            return "done"
        if line["completion_tokens"]:
            return "decode"
        return "prefill" if line["prompt_tokens"] else "queue"


class BurstTest(unittest.TestCase):
    """2 000 streams, all open before the first step."""

    NUM_STREAMS, NUM_CONNECTIONS, NUM_DIFFERENT = 2000, 5, 400
    # A connection may have 512 streams. There is room for fewer sequences than may run, so that
    # some are preempted.
    FLAGS = ["--max-num-seqs", "256", "--kv-cache-bytes", "3MiB", "--max-queued-requests", "2000",
             "--max-concurrent-requests", "2000", "--max-queued-prefill-tokens", "1000000"]

    def test_two_thousand_at_once_give_what_each_gives_alone(self):
        rng = random.Random(SEED)
        print(f"seed {SEED}")
        with Server(tiny_model(), *self.FLAGS) as server:
            truth = Truth(server, pool(rng, self.NUM_DIFFERENT, (3, 40), (16, 48)))
            rest, counts = Rest(server), Counts(server)
            calls = named("burst", [truth.call(i) for i in range(self.NUM_STREAMS)])
            with contextlib.ExitStack() as stack:
                held = HeldThread(server.process.pid, "quire-engine")
                try:
                    crowd = stack.enter_context(Crowd(
                        server, calls, self.NUM_CONNECTIONS,
                        self.NUM_STREAMS // self.NUM_CONNECTIONS))
                    wait_until(lambda: gauge(server, "quire_requests_open") == self.NUM_STREAMS,
                               "all are open")
                    refused = server.ask(truth.requests[0])
                    self.assertEqual(refused.info().reason, "QUEUE_FULL")
                finally:
                    held.let_go()
                wait_until(lambda: gauge(server, "vllm:num_requests_running") >= 64, "many run")
                crowd.finish()
            for call in calls:
                self.assertIsNone(call.answer().error)
                self.assertEqual(call.tokens, call.alone)
            rest.wait()
            self.assertEqual(counts.get(), {
                ("vllm:request_success_total", "length"): self.NUM_STREAMS,
                ("quire_rejections_total", "QUEUE_FULL"): 1})
            truth.check_still(server)
        self.assertEqual(server.stop(), 0)
        preemptions, held, _ = server.last_words()
        print(f"{preemptions} preemptions")
        self.assertEqual(held, 0, "blocks are held by nobody")
        self.assertGreater(preemptions, 0, "the pool was not small enough to test anything")


class GoneTest(unittest.TestCase):
    """Clients that end, freeze, or close half of their connection in the middle of answers."""

    NUM_CONNECTIONS, WIDTH = 4, 64
    NUM_CALLS = NUM_CONNECTIONS * WIDTH
    # More than all windows of a connection: 8 choices of 400 tokens with 20 log-probabilities each.
    LARGE = greedy([5, 6, 7], 400, n=8, logprobs=20)
    SLOW = ("quire_request_failures_total", "SLOW_CONSUMER")

    @contextlib.contextmanager
    def server(self, *flags):
        with Server(tiny_model(), "--kv-cache-bytes", "16MiB", *flags) as server:
            truth = Truth(server, pool(random.Random(SEED), 8, (3, 40), (200, 400)))
            yield server, truth
            truth.check_still(server)
            self.assertTrue(server.is_serving())
        self.assertEqual(server.stop(), 0)
        self.assertEqual(server.last_words()[1], 0, "blocks are held by nobody")

    def test_a_killed_process_with_many_streams_leaves_nothing(self):
        with self.server() as (server, truth):
            rest = Rest(server)
            for num_tokens in [1, 2000, 20_000]:
                counts = Counts(server)
                calls = [truth.call(i) for i in range(self.NUM_CALLS)]
                before = gauge(server, "vllm:generation_tokens_total")
                with Crowd(server, calls, self.NUM_CONNECTIONS, self.WIDTH) as crowd:
                    wait_until(lambda: counts.total() + gauge(server, "quire_requests_open")
                               == self.NUM_CALLS, "all are there")
                    wait_until(lambda: gauge(server, "vllm:generation_tokens_total")
                               >= before + num_tokens, "tokens flow")
                    crowd.process.kill()
                    rest.wait()
                print(f"killed after {num_tokens} tokens: {counts.get()}")
                self.assertEqual(counts.total(), self.NUM_CALLS)
                self.assertGreater(counts.get()["quire_request_failures_total", "CANCELLED"], 0)

    @contextlib.contextmanager
    def frozen(self, server, truth):
        """A client that reads no more, when all its streams have been ended for that."""
        counts, num_calls = Counts(server), 8
        with Crowd(server, [Call(self.LARGE) for _ in range(num_calls)], 2, 4) as crowd:
            wait_until(lambda: gauge(server, "vllm:num_requests_running") == 8 * num_calls,
                       "all run")
            crowd.process.send_signal(signal.SIGSTOP)
            num_others, until = 0, time.monotonic() + ANSWER_S
            while counts.get().get(self.SLOW, 0) < num_calls and time.monotonic() < until:
                call = truth.call(num_others)
                self.assertEqual(server.ask(call.request).tokens, call.alone)
                num_others += 1
            print(f"{num_others} other streams while {num_calls} hung")
            wait_until(lambda: gauge(server, "quire_requests_open") == 0, "the streams are over")
            self.assertEqual(counts.get(), {
                self.SLOW: num_calls, ("vllm:request_success_total", "length"): num_others})
            self.assertEqual(gauge(server, "vllm:num_requests_running"), 0)
            self.assertEqual(scrape_of(server).sum("quire_kv_blocks", state="held"), 0)
            yield crowd

    def test_a_frozen_client_is_given_up_and_may_be_killed_or_wake_up(self):
        with self.server("--slow-reader-timeout", "1", "--max-num-seqs", "72") as (server, _):
            short = Truth(server, pool(random.Random(SEED), 8, (3, 40), (4, 8)))
            rest = Rest(server)
            with self.frozen(server, short) as crowd:
                crowd.process.kill()
                rest.wait()
            with self.frozen(server, short) as crowd:
                crowd.process.send_signal(signal.SIGCONT)
                ends = collections.Counter()
                for call in crowd.finish():
                    ends[call.end()] += 1
                    self.assertFalse(any(r.HasField("finished") for r in call.responses))
                print(f"what it finds when it wakes: {dict(ends)}")
                self.assertLessEqual({status for status, _ in ends},
                                     {"RESOURCE_EXHAUSTED", "CANCELLED"})
                rest.wait()

    def test_a_call_that_is_gone_before_its_message_counts_as_cancelled(self):
        headers = h2.call_headers(h2.GENERATE)
        with self.server() as (server, _), h2.RawConnection(server.address) as raw:
            counts = Counts(server)
            raw.send(h2.HEADERS, h2.END_HEADERS, 1, headers)
            raw.send(h2.RST_STREAM, 0, 1, b"\0\0\0\x08")
            wait_until(counts.total, "it is counted")
            self.assertEqual(counts.get(), {("quire_rejections_total", "CANCELLED"): 1})
            # One whose client waits for the answer is wrong.
            raw.send(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 3, headers)
            self.assertEqual(raw.read_stream(3)[-1].type, h2.HEADERS)
            wait_until(lambda: counts.total() == 2, "it is counted")
            self.assertEqual(counts.get()["quire_rejections_total", "INVALID_FIELD"], 1)

    def leave_half(self, server, count, leave):
        """Connections with four streams each in the middle of their answers, each left so."""
        rest, counts = Rest(server), Counts(server)
        with contextlib.ExitStack() as stack:
            connections = [stack.enter_context(h2.RawConnection(server.address))
                           for _ in range(count)]
            for raw in connections:
                for stream in [1, 3, 5, 7]:
                    raw.call(stream, h2.GENERATE, greedy([5, 6, stream], 500).SerializeToString(),
                             end_stream=stream < 5)
            for raw in connections:
                data = set()
                raw.read_until(lambda f, data=data: f.type == h2.DATA and (
                    data.add(f.stream) or len(data) == 4))
            for raw in connections:
                leave(raw)
            rest.wait()
        self.assertEqual(counts.get(),
                         {("quire_request_failures_total", "CANCELLED"): 4 * count})

    def test_half_closed_connections_are_closed_with_all_their_streams(self):
        def shut(raw):
            raw.socket.shutdown(socket.SHUT_WR)

        with self.server() as (server, _):
            self.leave_half(server, 16, shut)

    def test_reset_connections_are_closed_with_all_their_streams(self):
        def reset(raw):
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()

        with self.server() as (server, _):
            self.leave_half(server, 16, reset)


class DrainTest(unittest.TestCase):
    """SIGTERM while 400 streams run and wait."""

    NUM_STREAMS, NUM_CONNECTIONS, NUM_SEQS = 400, 4, 32
    DRAINING = ("UNAVAILABLE", "DRAINING")

    def drained(self, *flags, second=False):
        """The exit code, and the calls by how they ended."""
        with Server(tiny_model(), "--kv-cache-bytes", "16MiB", "--max-num-seqs",
                    str(self.NUM_SEQS), *flags) as server:
            truth = Truth(server, pool(random.Random(SEED), 20, (3, 40), (250, 400)))
            calls = named("drain", [truth.call(i) for i in range(self.NUM_STREAMS)])
            counts = Counts(server)

            def is_full():
                page = scrape_of(server)
                running = page.sum("vllm:num_requests_running")
                waiting = page.sum("vllm:num_requests_waiting")
                return (running == self.NUM_SEQS
                        and counts.total() + running + waiting == self.NUM_STREAMS)

            with Crowd(server, calls, self.NUM_CONNECTIONS,
                       self.NUM_STREAMS // self.NUM_CONNECTIONS) as crowd:
                wait_until(is_full, "it is full")
                server.process.send_signal(signal.SIGTERM)
                if second:
                    server.wait_for_log("draining")
                    server.process.send_signal(signal.SIGTERM)
                code = server.process.wait(ANSWER_S)
                crowd.finish()
        ends = collections.defaultdict(list)
        for call in calls:
            answer = call.answer()  # which checks that it has one end
            self.assertEqual(call.tokens, call.alone[:len(call.tokens)])
            if call.status == "OK":
                self.assertEqual(answer.finished.usage.completion_tokens, len(call.alone))
            ends[call.end()].append(call)
        print({end: len(calls) for end, calls in ends.items()})
        return code, ends, server

    def check_log(self, server, ends):
        """It tells of each stream what its client was told."""
        lines, nameless = lines_of(server)
        self.assertEqual(nameless, [])
        for (status, _), calls in ends.items():
            for call in calls:
                self.assertEqual(lines[call.request.request_id]["status"], status)
        self.assertEqual(server.last_words()[1], 0, "blocks are held by nobody")

    def test_what_runs_finishes_and_what_waits_is_told_draining(self):
        code, ends, server = self.drained("--drain-timeout", "100")
        self.assertEqual(code, 0)
        self.assertEqual(set(ends), {("OK", ""), self.DRAINING})
        self.assertGreaterEqual(len(ends["OK", ""]), self.NUM_SEQS)
        for call in ends[self.DRAINING]:
            self.assertEqual(call.tokens, [])
            self.assertEqual(call.answer().info().metadata["stage"], "queued")
        self.check_log(server, ends)

    def test_what_does_not_finish_in_time_is_told_draining_too(self):
        code, ends, server = self.drained("--drain-timeout", "1ms")
        self.assertEqual(code, 0)
        self.assertLessEqual(set(ends), {("OK", ""), self.DRAINING})
        stages = collections.Counter(
            call.answer().info().metadata["stage"] for call in ends[self.DRAINING])
        self.assertEqual(set(stages), {"queued", "running"}, stages)
        self.check_log(server, ends)

    def test_a_second_signal_under_load_ends_all_at_once(self):
        code, ends, _ = self.drained("--drain-timeout", "100", second=True)
        self.assertEqual(code, 130)
        self.assertEqual({status for status, _ in ends} - {"OK"}, {"UNAVAILABLE"})


if __name__ == "__main__":
    unittest.main()

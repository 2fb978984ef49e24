"""What /metrics says agrees with what clients saw; and the pages beside it."""

import collections
import re
import selectors
import signal
import socket
import threading
import time
import unittest

from quire_server import (ANSWER_S, START_S, Answer, Server, greedy, pb, quire, tiny_model,
                          wait_until)
from raw_http2 import to_address
from scrape import get, scrape_of

SHARED_PREFIX = list(range(3, 99))
LONG = 400  # tokens: as many as the context of the tiny model has room for


class Load:
    """Clients of all kinds at once, and what each of them saw."""

    def __init__(self, server, num_threads, num_rounds):
        self.server = server
        self.mu = threading.Lock()
        self.ok = collections.Counter()       # by finish reason
        self.refused = collections.Counter()  # by reason of ErrorInfo
        self.usage = collections.Counter()    # of streams that ended with OK
        self.timings = collections.Counter()
        self.cancelled = set()  # ids; the server may have been done before it heard of it
        self.errors = []
        self.threads = [threading.Thread(target=self._run, args=(i, num_rounds))
                        for i in range(num_threads)]

    def run(self, meanwhile):
        for thread in self.threads:
            thread.start()
        while any(thread.is_alive() for thread in self.threads):
            meanwhile()
        for thread in self.threads:
            thread.join()
        assert not self.errors, self.errors

    def _run(self, i, num_rounds):
        try:
            for round_ in range(num_rounds):
                self._ask_good(i, round_)
                self._ask_wrong(i, round_)
                self._abort(f"abort-{i}-{round_}")
                self._cancel(f"cancel-{i}-{round_}", 300 + i)
        except Exception as error:  # a thread's assertion must fail the test
            self.errors.append(repr(error))

    def _keep(self, answer):
        assert answer.error is None, answer.error
        reason = pb.FinishReason.Name(answer.choice.finish_reason)
        with self.mu:
            self.ok[reason.removeprefix("FINISH_REASON_").lower()] += 1
            self._add(answer.finished)

    def _add(self, finished):
        for name in ["prompt_tokens", "cached_tokens", "completion_tokens"]:
            self.usage[name] += getattr(finished.usage, name)
        for name in ["queued_ms", "ttft_ms", "total_ms"]:
            self.timings[name] += getattr(finished.timings, name)

    def _ask_good(self, i, round_):
        prompt = SHARED_PREFIX + [100 + i, 200 + round_]
        self._keep(self.server.ask(greedy(prompt, 5 + i)))
        plain = self.server.ask(greedy(prompt, 9))
        # A token that comes: the answer to the same question ends there.
        stopping = greedy(prompt, 9)
        stopping.params.stop_token_ids.append(plain.tokens[4])
        self._keep(plain)
        self._keep(self.server.ask(stopping))

    def _ask_wrong(self, i, round_):
        wrong = [greedy([5], 4, top_p=7), greedy([5], 4), greedy([5], 1 << 20)]
        wrong[1].model = "no-such-model"
        answer = self.server.ask(wrong[(i + round_) % len(wrong)])
        assert answer.error is not None
        with self.mu:
            self.refused[answer.info().reason] += 1

    def _abort(self, request_id):
        request = greedy(SHARED_PREFIX, LONG)
        request.request_id = request_id
        stream = self.server.generation.Generate(request, timeout=ANSWER_S)
        assert next(stream).WhichOneof("event") == "accepted"
        self.server.generation.Abort(pb.AbortRequest(request_ids=[request_id]), timeout=ANSWER_S)
        events = list(stream)
        assert events[-1].WhichOneof("event") == "finished", events[-1]
        choice = next(e.choice_finished for e in events if e.HasField("choice_finished"))
        reason = pb.FinishReason.Name(choice.finish_reason).removeprefix("FINISH_REASON_").lower()
        with self.mu:
            self.ok[{"aborted": "abort"}.get(reason, reason)] += 1
            self._add(events[-1].finished)

    def _cancel(self, request_id, token_id):
        request = greedy(SHARED_PREFIX + [token_id], LONG)
        request.request_id = request_id
        stream = self.server.generation.Generate(request, timeout=ANSWER_S)
        for response in stream:
            if response.WhichOneof("event") == "delta":
                break
        stream.cancel()
        with self.mu:
            self.cancelled.add(request_id)


class AgreementTest(unittest.TestCase):
    def test_counters_agree_exactly_with_what_clients_saw(self):
        with Server(tiny_model(), "--max-num-seqs", "6") as server:
            load = Load(server, num_threads=8, num_rounds=4)
            scrapes = []

            def scrape():
                scrapes.append(scrape_of(server))

            scrape()
            load.run(meanwhile=scrape)
            lines = self.lines_of_cancelled(server, load)
            scrape()
            self.check_monotonic(scrapes)
            self.check(server, load, lines, scrapes[-1])
            print(f"{len(scrapes)} scrapes during {sum(load.ok.values())} answers, "
                  f"{sum(load.refused.values())} refusals, {len(load.cancelled)} cancellations")

    def lines_of_cancelled(self, server, load):
        """A client that cancels does not wait for the server to be done, so the log is asked."""
        def lines():
            return [line for line in server.access_lines()
                    if line.get("request_id") in load.cancelled]
        wait_until(lambda: len(lines()) == len(load.cancelled), "a line for each", ANSWER_S)
        return lines()

    def check_monotonic(self, scrapes):
        for before, after in zip(scrapes, scrapes[1:]):
            for key, value in before.series.items():
                name = re.sub(r"_(bucket|sum|count)$", "", key[0])
                if key[0].endswith("_total") or before.types.get(name) == "histogram":
                    self.assertGreaterEqual(after.series[key], value, key)

    def check(self, server, load, of_cancelled, scrape):
        lines = server.access_lines()
        cancelled = collections.Counter(line["status"] for line in of_cancelled)
        ok, usage, timings = load.ok, load.usage, load.timings
        for line in of_cancelled:
            if line["status"] == "OK":
                ok[line["finish_reason"]] += 1
                usage["length_of_ok"] += line["completion_tokens"]
                timings["total_ms"] += line["total_ms"]
        usage["length_of_ok"] += usage["completion_tokens"]
        for name in ["prompt_tokens", "cached_tokens", "completion_tokens"]:
            usage[name] += sum(line[name] for line in of_cancelled)
        for name in ["queued_ms", "ttft_ms"]:
            timings[name] += sum(line.get(name, 0) for line in of_cancelled)

        self.assertEqual(scrape.by("vllm:request_success_total", "finished_reason"), ok)
        self.assertEqual(scrape.by("quire_rejections_total", "reason"), load.refused)
        del cancelled["OK"]
        self.assertEqual(scrape.by("quire_request_failures_total", "reason"), cancelled)
        self.assertEqual(scrape.sum("vllm:prompt_tokens_total"), usage["prompt_tokens"])
        self.assertEqual(scrape.sum("quire_cached_tokens_total"), usage["cached_tokens"])
        self.assertEqual(scrape.sum("vllm:generation_tokens_total"), usage["completion_tokens"])
        self.assertGreater(usage["cached_tokens"], 0)
        # All is over: the engine's own counters and gauges must say so too.
        self.assertEqual(scrape.sum("vllm:prefix_cache_hits_total"),
                         scrape.sum("quire_cached_tokens_total"))
        self.assertEqual(scrape.sum("vllm:num_requests_running"), 0)
        self.assertEqual(scrape.sum("vllm:num_requests_waiting"), 0)
        self.assertEqual(scrape.sum("quire_kv_blocks", state="held"), 0)
        self.assertEqual(scrape.sum("vllm:kv_cache_usage_perc"), 0)
        self.assertGreater(scrape.sum("quire_kv_blocks", state="cached"), 0)
        self.assertEqual(scrape.sum("quire_kv_blocks"), server.info().kv_cache.num_blocks)

        num_ok = sum(ok.values())
        for name in ["e2e_request_latency_seconds", "request_prompt_tokens",
                     "request_generation_tokens"]:
            self.assertEqual(scrape.sum(f"vllm:{name}_count"), num_ok, name)
        self.assertEqual(scrape.sum("vllm:request_generation_tokens_sum"),
                         usage["length_of_ok"])
        # Times, as clients were told.
        for name, told in [("e2e_request_latency", "total_ms"),
                           ("request_queue_time", "queued_ms"),
                           ("time_to_first_token", "ttft_ms")]:
            self.assertAlmostEqual(scrape.sum(f"vllm:{name}_seconds_sum"), timings[told] / 1000,
                                   delta=1e-5, msg=name)
        # One line in the log for each call, with the same numbers.
        self.assertEqual(len(lines), num_ok + sum(cancelled.values()) + sum(load.refused.values()))
        self.assertEqual(collections.Counter(line["finish_reason"] for line in lines
                                             if line["status"] == "OK"), ok)
        for name in ["prompt_tokens", "cached_tokens", "completion_tokens"]:
            self.assertEqual(sum(line.get(name, 0) for line in lines), usage[name], name)

    def test_the_sum_of_ttft_is_within_5_percent_of_what_clients_measure(self):
        # One at a time, behind a long queue: they wait far longer than messages travel.
        with Server(tiny_model(), "--max-num-seqs", "1") as server:
            before = scrape_of(server)
            queue = [server.generation.Generate(greedy([5, 6 + i], LONG), timeout=ANSWER_S)
                     for i in range(24)]
            for stream in queue:
                self.assertEqual(next(stream).WhichOneof("event"), "accepted")
            measured = []

            def ask(i):
                start = time.monotonic()
                ttft = None
                for response in server.generation.Generate(greedy([7, 6 + i], LONG),
                                                           timeout=ANSWER_S):
                    if ttft is None and response.WhichOneof("event") == "delta":
                        ttft = time.monotonic() - start
                measured.append(ttft)

            threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            of_queue = [list(stream)[-1].finished.timings.ttft_ms / 1000 for stream in queue]
            after = scrape_of(server)
            name = "vllm:time_to_first_token_seconds"
            self.assertEqual(after.sum(name + "_count") - before.sum(name + "_count"), 30)
            told = after.sum(name + "_sum") - before.sum(name + "_sum") - sum(of_queue)
            print(f"sum of TTFT: {told:.3f} s by metrics, {sum(measured):.3f} s by clients")
            self.assertLess(abs(told - sum(measured)), 0.05 * sum(measured))


def serve_metrics_on(address):
    return quire("serve", tiny_model(), "--listen", "127.0.0.1:0", "--metrics-listen", address)


class SilentClients:
    """So many connections that say nothing; each that is closed is opened again at once."""

    def __init__(self, address, count):
        self.address = to_address(address)
        self.num_closed = 0
        self.selector = selectors.DefaultSelector()
        self.is_over = False
        for _ in range(count):
            self._open()
        self.thread = threading.Thread(target=self._open_again)
        self.thread.start()

    def _open(self):
        self.selector.register(socket.create_connection(self.address), selectors.EVENT_READ)

    def _open_again(self):
        while not self.is_over:
            for key, _ in self.selector.select(0.1):
                self.selector.unregister(key.fileobj)
                key.fileobj.close()
                self._open()
                self.num_closed += 1

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.is_over = True
        self.thread.join()
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()


class ListenerTest(unittest.TestCase):
    def test_probes_answer_and_readiness_goes_off_at_sigterm(self):
        with Server(tiny_model(), drain_delay="3600") as server:
            for path in ["/livez", "/readyz", "/startupz"]:
                self.assertEqual(get(server.metrics_address, path), (200, "ok\n"))
            self.assertEqual(get(server.metrics_address, "/nothing")[0], 404)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: get(server.metrics_address, "/readyz")[0] != 200, "not ready")
            self.assertEqual(get(server.metrics_address, "/readyz"), (503, "draining\n"))
            self.assertEqual(get(server.metrics_address, "/livez"), (200, "ok\n"))
            self.assertIn("vllm:num_requests_running", get(server.metrics_address, "/metrics")[1])
            server.process.send_signal(signal.SIGTERM)  # do not wait for the delay
            self.assertEqual(server.process.wait(START_S), 130)

    def test_clients_that_say_nothing_do_not_keep_probes_from_answers(self):
        with Server(tiny_model()) as server:
            with SilentClients(server.metrics_address, 40) as silent:
                wait_until(lambda: silent.num_closed >= 40, "connections that were closed")
                for _ in range(20):
                    start = time.monotonic()
                    self.assertEqual(get(server.metrics_address, "/livez"), (200, "ok\n"))
                    self.assertLess(time.monotonic() - start, 1)

    def test_a_port_in_use_ends_with_4_and_names_the_flag(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = "127.0.0.1:%d" % taken.getsockname()[1]
            done = serve_metrics_on(address)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("--metrics-listen", done.stderr)
        self.assertIn(address, done.stderr)

    def test_an_address_that_is_none_is_wrong_usage(self):
        done = serve_metrics_on("9400")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--metrics-listen 9400", done.stderr)

    def test_an_empty_address_turns_it_off(self):
        with Server(tiny_model(), metrics_listen="") as server:
            self.assertNotIn("metrics on", server.log())

    def test_after_the_last_stream_the_final_counts_can_still_be_scraped_while_draining(self):
        with Server(tiny_model(), drain_delay="3600") as server:
            answer = Answer(server.generation.Generate(greedy([5, 6], 8), timeout=ANSWER_S))
            self.assertIsNone(answer.error)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("draining")
            self.assertEqual(scrape_of(server).sum("vllm:generation_tokens_total"), 8)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(START_S)


if __name__ == "__main__":
    unittest.main()

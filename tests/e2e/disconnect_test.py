"""64 streams of mixed length, a fifth of them cut off by their clients, a pool that is too small.

Every stream that remains has exactly the tokens it gives alone; all blocks are free afterwards.
As a soak test: QUIRE_SOAK_S=600 /usr/bin/python3 tests/e2e/disconnect_test.py -v SmolLM2Test
"""

import concurrent.futures
import random
import re
import threading
import time
import unittest

import grpc

from quire_server import (
    ANSWER_S, SETTINGS, Answer, Server, greedy, pb, sampled, smollm2, tiny_model)

NUM_STREAMS = 64


class Crowd:
    """Runs requests at once and counts how many have their first token and not their last."""

    def __init__(self, server):
        self.server = server
        self.lock = threading.Lock()
        self.running = self.peak = 0

    def one(self, request, cut_after):
        """The tokens of a stream, or None where the client went away after so many."""
        stream = self.server.generation.Generate(request, timeout=ANSWER_S)
        tokens, counted = [], False
        try:
            for response in stream:
                if response.WhichOneof("event") != "delta":
                    continue
                tokens += response.delta.token_ids
                if not counted:
                    counted = True
                    with self.lock:
                        self.running += 1
                        self.peak = max(self.peak, self.running)
                if cut_after is not None and len(tokens) >= cut_after:
                    stream.cancel()
                    return None
            return tokens
        finally:
            if counted:
                with self.lock:
                    self.running -= 1

    def all(self, requests, cuts):
        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            return list(pool.map(self.one, requests, cuts))


def resident_kib(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))


class DisconnectTest(unittest.TestCase):
    def disconnects(self, model, vocab, num_blocks, longest, seed):
        rng = random.Random(seed)
        print(f"seed {seed}")
        with Server(model) as roomy:
            kv = roomy.info().kv_cache
            requests, cuts = [], []
            for i in range(NUM_STREAMS):
                ids = [rng.randrange(5, vocab) for _ in range(rng.randrange(4, longest))]
                length = rng.randrange(16, longest)
                requests.append(sampled(ids, length, seed=i) if i % 2 else greedy(ids, length))
                cuts.append(rng.randrange(1, length) if i % 5 == 0 else None)
            alone = [roomy.ask(request).tokens for request in requests]
        flags = ["--kv-cache-bytes", str(int(num_blocks * kv.bytes / kv.num_blocks))]
        with Server(model, *flags) as small:
            self.assertEqual(small.info().kv_cache.num_blocks, num_blocks)
            self.round(small, requests, cuts, alone)
            self.every_block_is_free(small, vocab)
            self.soak(small, requests, cuts, alone)
        self.assertEqual(small.stop(), 0)
        preemptions, held, _ = small.last_words()
        print(f"{preemptions} preemptions")
        self.assertEqual(held, 0)
        self.assertGreater(preemptions, 0, "the pool was not small enough to test anything")

    def round(self, server, requests, cuts, alone):
        crowd = Crowd(server)
        together = crowd.all(requests, cuts)
        for i, tokens in enumerate(together):
            if tokens is not None:
                self.assertEqual(tokens, alone[i], f"stream {i}")
        self.assertEqual(sum(t is None for t in together), len([c for c in cuts if c is not None]))
        self.assertTrue(server.is_serving())
        print(f"at most {crowd.peak} streams at once")
        self.assertGreaterEqual(crowd.peak, 16)

    def every_block_is_free(self, server, vocab):
        """Requests that need the whole pool, side by side, all come to their end."""
        info = server.info()
        block, blocks = info.kv_cache.block_size, info.kv_cache.num_blocks
        each = min(info.limits.max_model_len // block, blocks)
        requests = []
        for i in range(blocks // each):
            ids = [5 + (i * 31 + j * 7) % (vocab - 5) for j in range(each * block - 16)]
            requests.append(greedy(ids, 16))
        answers = Crowd(server).all(requests, [None] * len(requests))
        self.assertEqual([len(a) for a in answers], [16] * len(requests))

    def soak(self, server, requests, cuts, alone):
        """Repeats the round for QUIRE_SOAK_S seconds; prints how the resident set grows."""
        seconds = float(SETTINGS.get("QUIRE_SOAK_S", "0"))
        started, points = time.monotonic(), []
        while time.monotonic() < started + seconds:
            self.round(server, requests, cuts, alone)
            points.append((time.monotonic() - started, resident_kib(server.process.pid)))
            print(f"{points[-1][0]:7.1f} s  {points[-1][1] / 1024:8.1f} MiB resident", flush=True)
        late = [p for p in points if p[0] > 120]
        if len(late) >= 3:
            mean_t = sum(t for t, _ in late) / len(late)
            mean_m = sum(m for _, m in late) / len(late)
            slope = (sum((t - mean_t) * (m - mean_m) for t, m in late)
                     / sum((t - mean_t) ** 2 for t, _ in late)) * 60 / 1024
            print(f"after minute 2 it grows by {slope:.3f} MiB a minute")
            self.assertLess(slope, 1)


class TinyModelTest(DisconnectTest):
    def test_streams_survive_the_disconnects_of_others(self):
        self.disconnects(tiny_model(), vocab=512, num_blocks=96, longest=160, seed=1)


class SmolLM2Test(DisconnectTest):
    def test_streams_survive_the_disconnects_of_others(self):
        self.disconnects(smollm2(), vocab=49152, num_blocks=64, longest=80, seed=2)


del DisconnectTest  # abstract: not to be collected

if __name__ == "__main__":
    unittest.main()

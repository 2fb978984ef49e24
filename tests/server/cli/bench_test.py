#!/usr/bin/env python3
"""`quire bench` against a real server and a real engine over a tiny random model: the counts are
exact, the fields are there. How fast it is says nothing here."""

import json
import os
import re
import signal
import subprocess
import tempfile
import time
import unittest

import cli

SHORT = ["--prompt-tokens", "20", "--new-tokens", "6", "--calibrate", "false"]
FIELDS = {
    "target", "model", "backend", "seed", "concurrency", "rate", "requests", "completed", "failed",
    "unfinished", "errors", "seconds", "prompt_tokens", "generated_tokens",
    "generated_tokens_per_s", "prompt_tokens_per_s", "requests_per_s", "slo_ttft_ms",
    "slo_tpot_ms", "goodput_per_s", "ttft_ms", "tpot_ms", "itl_ms", "total_ms",
    "read_bytes_per_s", "operations_per_s", "weight_bytes", "decode_roofline", "compute_roofline"}
DISTRIBUTION = {"count", "mean", "p50", "p90", "p95", "p99"}


def bench(*args):
    result = cli.run("bench", *args, "--json")
    assert result.code == cli.OK, f"exit code {result.code}: {result.err}"
    return result.json_lines()


class BenchTest(unittest.TestCase):
    def check_point(self, point, requests, prompt_tokens, generated_tokens):
        self.assertEqual(set(point), FIELDS)
        self.assertEqual([point[name] for name in ("requests", "completed", "failed", "unfinished",
                                                   "errors", "prompt_tokens", "generated_tokens")],
                         [requests, requests, 0, 0, {}, prompt_tokens, generated_tokens])
        for name, count in (("ttft_ms", requests), ("total_ms", requests), ("tpot_ms", requests)):
            self.assertEqual(set(point[name]), DISTRIBUTION)
            self.assertEqual(point[name]["count"], count)
        # Gaps there are none where a delta brought all tokens: such a model may be that fast.
        for name in ("ttft_ms", "tpot_ms", "total_ms"):
            p50, p90, p95, p99 = (point[name][p] for p in ("p50", "p90", "p95", "p99"))
            self.assertTrue(0 <= p50 <= p90 <= p95 <= p99, point[name])
        self.assertLessEqual(point["ttft_ms"]["mean"], point["total_ms"]["mean"])
        for name, count in (("generated_tokens_per_s", generated_tokens),
                            ("prompt_tokens_per_s", prompt_tokens), ("requests_per_s", requests)):
            self.assertAlmostEqual(point[name] * point["seconds"], count, places=3)


class Grpc(BenchTest):
    @classmethod
    def setUpClass(cls):
        cls.serving = cli.Serving(cli.TINY)
        cls.server = cls.serving.__enter__()
        cls.at = ["--address", cls.server.address]

    @classmethod
    def tearDownClass(cls):
        cls.serving.__exit__()

    def test_a_closed_loop_counts_exactly(self):
        points = bench(*self.at, *SHORT, "--concurrency", "1,4", "--requests", "10",
                       "--slo-ttft-ms", "600000", "--slo-tpot-ms", "600000", "--seed", "5")
        self.assertEqual([point["concurrency"] for point in points], [1, 4])
        for point in points:
            self.check_point(point, 10, 200, 60)
            self.assertEqual((point["target"], point["rate"], point["seed"]), ("grpc", None, 5))
            self.assertEqual(point["goodput_per_s"], point["requests_per_s"])
            # Nobody knows what memory of the server's can do.
            self.assertIsNone(point["decode_roofline"])

    def test_a_rate_is_kept(self):
        [point] = bench(*self.at, *SHORT, "--rate", "50", "--arrivals", "fixed", "--requests", "20")
        self.check_point(point, 20, 400, 120)
        self.assertEqual((point["rate"], point["concurrency"]), (50, None))
        self.assertGreaterEqual(point["seconds"], 19 / 50)
        self.assertIsNone(point["goodput_per_s"])

    def test_more_at_once_than_a_connection_carries(self):
        [point] = bench(*self.at, "--concurrency", "150", "--requests", "150", "--prompt-tokens",
                        "4", "--new-tokens", "2")
        self.check_point(point, 150, 600, 300)

    def test_times_tell_when_each_token_came(self):
        with tempfile.TemporaryDirectory() as folder:
            prompts, times = os.path.join(folder, "prompts"), os.path.join(folder, "times")
            with open(prompts, "w", encoding="utf-8") as file:
                file.write('{"ids": [1, 2, 3]}\n{"ids": [4], "max_tokens": 9}\n')
            before = time.monotonic()
            [point] = bench(*self.at, "--prompts", prompts, "--new-tokens", "5", "--concurrency",
                            "2", "--times", times)
            self.check_point(point, 2, 4, 14)
            lines = cli.read_jsonl(times)
        self.assertEqual([line["prompt_tokens"] for line in lines], [3, 1])
        for index, (line, tokens) in enumerate(zip(lines, (5, 9))):
            self.assertEqual((line["point"], line["request"], line["end"]), (0, index, "done"))
            self.assertEqual(sum(line["counts"]), tokens)
            self.assertEqual(len(line["counts"]), len(line["times_s"]))
            all_times = [before, line["begin_s"], line["due_s"], *line["times_s"], line["end_s"],
                         time.monotonic()]
            self.assertEqual(all_times, sorted(all_times))

    def test_a_trace_gives_the_lengths(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for length in (3, 30, 17):
                file.write(json.dumps({"input_length": length, "output_length": 2}) + "\n")
            file.flush()
            [point] = bench(*self.at, "--trace", file.name)
        self.check_point(point, 3, 50, 6)

    def test_errors_are_counted_and_the_rest_goes_on(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            for length in (3, 1_000_000, 17):
                file.write(json.dumps({"input_length": length, "output_length": 2}) + "\n")
            file.flush()
            [point] = bench(*self.at, "--trace", file.name)
        self.assertEqual((point["completed"], point["failed"]), (2, 1))
        self.assertEqual(sum(point["errors"].values()), 1)
        self.assertEqual((point["prompt_tokens"], point["generated_tokens"]), (20, 4))

    def test_none_that_ends_well_is_an_error(self):
        result = cli.run("bench", *self.at, "--prompt-tokens", "100000", "--requests", "2")
        self.assertEqual(result.code, cli.REFUSED)
        self.assertIn("no request ended well: CONTEXT_LENGTH_EXCEEDED", result.err)

    def test_a_point_that_takes_too_long_is_cut_off(self):
        [point] = bench(*self.at, *SHORT, "--rate", "0.01", "--requests", "2", "--max-time",
                        "300ms")
        self.assertEqual((point["completed"], point["unfinished"]), (1, 1))

    def test_ctrl_c_shows_what_there_is(self):
        process = subprocess.Popen(
            [cli.BINARY, "bench", *self.at, "--prompt-tokens", "20", "--new-tokens", "11",
             "--rate", "1,2", "--arrivals", "fixed", "--requests", "1000", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        # The first request of the point has been served by then.
        self.server.wait_in_log('"completion_tokens":11')
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=cli.TIMEOUT_S)
        self.assertEqual(process.returncode, cli.INTERRUPTED, err)
        [point] = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(point["requests"], 1000)
        self.assertEqual(point["completed"] + point["unfinished"], 1000)

    def test_text_and_a_page_that_loads_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            page = os.path.join(folder, "report.html")
            result = cli.run("bench", *self.at, *SHORT, "--concurrency", "1,2,4", "--html", page)
            with open(page, encoding="utf-8") as file:
                html = file.read()
        self.assertEqual((result.code, result.err), (cli.OK, ""))
        for text in ("concurrency 4: 16 of 16 requests", "TTFT", "TPOT", "ITL"):
            self.assertIn(text, result.out)
        self.assertEqual(html.count("<svg"), html.count("</svg>"))
        self.assertGreater(html.count("<svg"), 3)
        self.assertEqual(html.count("<tr><td>concurrency"), 3)
        self.assertIsNone(re.search(r"https?://|<script|src=|@import|url\(|nan|inf\b", html))


class Engine(BenchTest):
    def test_the_engine_alone_counts_the_same(self):
        points = bench("--engine", cli.TINY, *cli.SMALL_KV, *SHORT, "--concurrency", "2,3",
                       "--requests", "7")
        for point in points:
            self.check_point(point, 7, 140, 42)
            self.assertEqual(point["target"], "engine")
            self.assertEqual(point["itl_ms"]["count"], 7 * 5)

    def test_calibration_sets_decoding_beside_what_memory_allows(self):
        [point] = bench("--model", cli.TINY, *cli.SMALL_KV, "--prompt-tokens", "20",
                        "--new-tokens", "200", "--requests", "2")
        self.check_point(point, 2, 40, 400)
        self.assertEqual(point["target"], "grpc")
        self.assertGreater(point["read_bytes_per_s"], 1e8)
        least_ms = 1e3 * point["weight_bytes"] / point["read_bytes_per_s"]
        tpot_ms = point["tpot_ms"]["p50"]
        # On busy cores a client may see all tokens of a model this small at once.
        expected = None if tpot_ms == 0 else least_ms / tpot_ms
        self.assertAlmostEqual(point["decode_roofline"], expected)

    def test_calibration_sets_products_beside_what_the_instructions_allow(self):
        with open(os.path.join(cli.TINY, "config.json"), encoding="utf-8") as file:
            shape = json.load(file)
        hidden, num_heads = shape["hidden_size"], shape["num_attention_heads"]
        kv_size = hidden // num_heads * shape["num_key_value_heads"]
        layer = hidden * (2 * hidden + 2 * kv_size + 3 * shape["intermediate_size"])
        [point] = bench("--engine", cli.TINY, *cli.SMALL_KV, "--prompt-tokens", "20",
                        "--new-tokens", "30", "--requests", "4", "--concurrency", "2")
        self.assertGreater(point["operations_per_s"], 1e8)
        # The last token of each request is computed no further.
        operations = 2 * 4 * (49 * shape["num_hidden_layers"] * layer +
                              30 * shape["vocab_size"] * hidden)
        self.assertAlmostEqual(point["compute_roofline"],
                               operations / point["operations_per_s"] / point["seconds"])

    def test_a_shared_prefix_may_be_primed(self):
        [point] = bench("--engine", cli.TINY, *cli.SMALL_KV, "--calibrate", "false",
                        "--prompt-tokens", "70", "--shared-tokens", "64", "--prime",
                        "--new-tokens", "2", "--requests", "4", "--concurrency", "4")
        self.check_point(point, 4, 280, 8)


class Usage(unittest.TestCase):
    def test_what_contradicts_itself_is_told(self):
        for args, message in (
                (["--concurrency", "1", "--rate", "1"], "not both"),
                (["--concurrency", "0"], "--concurrency: 0 is not from 1"),
                (["--rate", "0"], "above 0"),
                (["--engine", cli.TINY, "--model", cli.TINY], "give one of"),
                (["--prime"], "--shared-tokens"),
                (["--trace", "/nowhere/t"], "cannot read /nowhere/t"),
                (["--html", "/nowhere/r.html"], "cannot write /nowhere/r.html")):
            result = cli.run("bench", *args)
            self.assertEqual(result.code, cli.USAGE, args)
            self.assertIn(message, result.err)

    def test_no_server(self):
        result = cli.run("bench", "--address", "127.0.0.1:1")
        self.assertEqual(result.code, cli.UNREACHABLE)
        self.assertIn("no server answers", result.err)

    def test_it_waits_for_a_server_as_long_as_it_is_told(self):
        before = time.monotonic()
        result = cli.run("bench", "--address", "127.0.0.1:1", "--wait", "200ms")
        self.assertEqual(result.code, cli.UNREACHABLE)
        self.assertGreaterEqual(time.monotonic() - before, 0.2)


if __name__ == "__main__":
    cli.main()

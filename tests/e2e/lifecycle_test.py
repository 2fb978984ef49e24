"""How the server starts, refuses to start, and ends; and the command line as scripts see it."""

import json
import os
import signal
import time
import socket
import unittest

from quire_server import ANSWER_S, GOLDEN, Server, greedy, quire, smollm2, tiny_model

NO_METRICS = ["--metrics-listen", ""]  # another server may have the default port


class StartTest(unittest.TestCase):
    def test_a_port_in_use_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = quire("serve", tiny_model(), "--listen", f"127.0.0.1:{port}", *NO_METRICS)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn(str(port), done.stderr)

    def test_no_memory_for_the_cache_is_said_before_the_first_request(self):
        done = quire("serve", tiny_model(), "--listen", "127.0.0.1:0", *NO_METRICS,
                     "--kv-cache-bytes", "900TiB")
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_an_address_without_a_port_is_wrong_usage(self):
        for listen in ["127.0.0.1", "unix:/tmp/quire.sock"]:
            done = quire("serve", tiny_model(), "--listen", listen)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("host:port", done.stderr)

    def test_a_model_that_is_not_there_is_named(self):
        done = quire("serve", "/nonexistent/model", "--listen", "127.0.0.1:0",
                     *NO_METRICS)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("/nonexistent/model", done.stderr)

    def test_an_unknown_flag_is_named(self):
        done = quire("serve", "m", "--no-such-flag")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--no-such-flag", done.stderr)

    def test_damaged_model_files_are_refused_with_code_3(self):
        folder = os.path.join(GOLDEN, "bad_files")
        if not os.path.isdir(folder):
            self.skipTest(f"{folder} is not there (QUIRE_GOLDEN)")
        with open(os.path.join(folder, "bad.jsonl"), encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        for row in rows:
            if row["must"] != "error" or row["file"].endswith(".safetensors"):
                continue
            with self.subTest(row["file"]):
                done = quire("serve", os.path.join(folder, row["file"]), "--listen", "127.0.0.1:0",
                             *NO_METRICS)
                self.assertEqual(done.returncode, 3, done.stderr)

    def test_the_client_says_that_there_is_no_server(self):
        done = quire("generate", "--address", "127.0.0.1:1", "--json", "hello")
        self.assertEqual(done.returncode, 5, done.stderr)


class EndTest(unittest.TestCase):
    def test_sigterm_lets_running_streams_finish(self):
        with Server(tiny_model()) as server:
            streams = [server.generation.Generate(greedy([5 + i, 6], 400), timeout=ANSWER_S)
                       for i in range(8)]
            for stream in streams:
                self.assertEqual(next(stream).WhichOneof("event"), "accepted")
                self.assertEqual(next(stream).WhichOneof("event"), "delta")
            server.process.send_signal(signal.SIGTERM)
            for stream in streams:
                events = [response.WhichOneof("event") for response in stream]
                self.assertEqual(events[-2:], ["choice_finished", "finished"])
            self.assertEqual(server.process.wait(60), 0, server.log())

    def test_a_second_sigterm_ends_it_now(self):
        with Server(tiny_model(), drain_delay="3600") as server:
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("draining")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(server.process.wait(60), 130, server.log())

    def test_a_second_sigterm_at_any_moment_ends_it_with_0_or_130(self):
        for gap_ms in range(0, 160, 10):
            with Server(tiny_model()) as server:
                server.process.send_signal(signal.SIGTERM)
                time.sleep(gap_ms / 1000)  # what is swept: how long the drain has lasted
                server.process.send_signal(signal.SIGTERM)
                self.assertIn(server.process.wait(60), (0, 130), f"after {gap_ms} ms")


class CommandLineTest(unittest.TestCase):
    def test_generate_json_prints_one_line(self):
        done = quire("generate", "--model", smollm2(), "--json", "--temperature", "0",
                     "--max-tokens", "8", "Once upon a time")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("\n"), 1, done.stdout)
        result = json.loads(done.stdout)
        self.assertEqual(len(result["choices"][0]["token_ids"]), 8)
        self.assertEqual(result["usage"]["completion_tokens"], 8)

    def test_a_refused_request_has_its_own_code_and_an_error_object(self):
        done = quire("generate", "--model", smollm2(), "--json", "--top-p", "7", "hello")
        self.assertEqual(done.returncode, 6, done.stderr)
        error = json.loads(done.stdout)["error"]
        self.assertEqual(error["code"], "INVALID_ARGUMENT")
        self.assertEqual(error["reason"], "INVALID_FIELD")

    def test_help_teaches_every_command(self):
        for command in ["serve", "chat", "generate", "inspect", "tokenize", "detokenize",
                        "template", "eval", "healthcheck"]:
            done = quire(command, "--help")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("quire " + command, done.stdout)


if __name__ == "__main__":
    unittest.main()

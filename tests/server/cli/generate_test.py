#!/usr/bin/env python3
"""`quire generate` and `quire serve`: answers, batches, exit codes, signals."""

import os
import signal
import socket
import subprocess
import tempfile
import unittest

import cli

GREEDY = ["--temperature", "0", "--ignore-eos"]


def ids_text(ids):
    return ",".join(str(i) for i in ids)


def golden_greedy(name):
    """(prompt, tokens that must be equal) of a tiny model: up to the first close decision."""
    for row in cli.read_jsonl(cli.DATA, "models", name, "greedy.jsonl"):
        close = [i for i, gap in enumerate(row["gaps"]) if gap < 0.25 * row["logit_std"]]
        tokens = row["tokens"][:close[0]] if close else row["tokens"]
        if tokens:
            yield row["prompt"], tokens


class WithoutServer(unittest.TestCase):
    """--model: a server of its own that ends with the command."""

    def test_json_has_the_shape_of_the_interface(self):
        prompt, tokens = next(iter(golden_greedy("llama_mha")))
        result = cli.run("generate", "--model", cli.TINY, *cli.SMALL_KV, "--prompt-ids",
                         ids_text(prompt), *GREEDY, "--max-tokens", "7", "--seed", "5",
                         "--request-id", "the-request", "--return-prompt-token-ids", "--json")
        self.assertEqual(result.code, cli.OK, result.err)
        answer = result.json()
        self.assertEqual(list(answer), ["request_id", "model", "choices", "usage", "timings",
                                        "params", "prompt_token_ids"])
        self.assertEqual(answer["request_id"], "the-request")
        self.assertEqual(answer["model"], "llama_mha")
        self.assertEqual(answer["prompt_token_ids"], prompt)
        [choice] = answer["choices"]
        self.assertEqual(choice["index"], 0)
        self.assertEqual(choice["finish_reason"], "LENGTH")
        self.assertEqual(len(choice["token_ids"]), 7)
        self.assertEqual(choice["token_ids"][:len(tokens)], tokens[:7])
        self.assertEqual(answer["usage"], {"prompt_tokens": len(prompt), "cached_tokens": 0,
                                           "completion_tokens": 7})
        self.assertGreater(answer["timings"]["total_ms"], 0)
        self.assertEqual(answer["params"]["seed"], 5)
        self.assertEqual(answer["params"]["temperature"], 0)

    def test_events_are_lines_of_protobuf_json(self):
        result = cli.run("generate", "--model", cli.TINY, *cli.SMALL_KV, "--prompt-ids", "379",
                         *GREEDY, "--max-tokens", "5", "--json", "--stream")
        self.assertEqual(result.code, cli.OK, result.err)
        events = result.json_lines()
        self.assertEqual([key for event in events for key in event],
                         ["accepted", *["delta"] * (len(events) - 3), "choice_finished",
                          "finished"])
        ids = [i for event in events if "delta" in event for i in event["delta"]["token_ids"]]
        self.assertEqual(len(ids), 5)
        self.assertEqual(events[-2]["choice_finished"]["finish_reason"], "FINISH_REASON_LENGTH")
        self.assertEqual(events[-1]["finished"]["usage"]["completion_tokens"], 5)

    def test_a_stop_token_is_told(self):
        prompt, tokens = max(golden_greedy("llama_mha"), key=lambda row: len(row[1]))
        stop = next(i for i, token in enumerate(tokens) if i > 0 and token not in tokens[:i])
        answer = cli.run("generate", "--model", cli.TINY, *cli.SMALL_KV, "--prompt-ids",
                         ids_text(prompt), *GREEDY, "--stop-token-ids", str(tokens[stop]),
                         "--max-tokens", "100", "--json").json()
        [choice] = answer["choices"]
        self.assertEqual(choice["finish_reason"], "STOP")
        self.assertEqual(choice["matched_stop"], {"token_id": tokens[stop]})
        self.assertEqual(choice["token_ids"], tokens[:stop + 1])

    def test_text_goes_to_stdout_as_it_is(self):
        common = ["generate", "--model", cli.BYTE_MODEL, *cli.SMALL_KV, *GREEDY, "--max-tokens",
                  "12"]
        shown = cli.run(*common, "--json", "Hello").json()["choices"][0]["text"]
        self.assertEqual(cli.run(*common, "Hello").out, shown)
        self.assertEqual(cli.run(*common, stdin="Hello").out, shown)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("Hello")
            file.flush()
            self.assertEqual(cli.run(*common, "--file", file.name).out, shown)


class Batch(unittest.TestCase):
    def test_lines_are_answered_in_order_and_equal_the_goldens(self):
        for name in ("llama_mha", "llama_gqa_llama3"):
            cases = list(golden_greedy(name))
            forms = [lambda ids, n: {"prompt_ids": ids, "max_tokens": n},
                     lambda ids, n: {"prompt": ids, "params": {"max_tokens": n}},
                     lambda ids, n: {"token_ids": {"ids": ids}, "max_tokens": n}]
            lines = [forms[i % 3](prompt, len(tokens)) for i, (prompt, tokens) in enumerate(cases)]
            results = cli.run_lines(
                "generate", "--batch", "--model", os.path.join(cli.DATA, "models", name),
                *cli.SMALL_KV, *GREEDY, "--concurrency", "5", lines=lines)
            for (_, tokens), result in zip(cases, results):
                self.assertEqual(result["choices"][0]["token_ids"], tokens)

    def test_a_line_that_fails_does_not_stop_the_rest(self):
        good = {"prompt_ids": [379], "max_tokens": 2}
        bad = [({"prompt_ids": [512]}, "INVALID_FIELD", "512"),
               ({"prompt_ids": []}, "INVALID_FIELD", "is empty; give 1 or more"),
               ({"prompt_ids": [1], "temperature": -1}, "INVALID_FIELD", "temperature"),
               ({"prompt_ids": [1], "temperature": "NaN"}, "INVALID_FIELD", "temperature"),
               ({"prompt_ids": [1], "speed": 9}, "UNKNOWN_FIELD", "speed"),
               ({"prompt_ids": [1], "params": {"speed": 9}}, "UNKNOWN_FIELD", "speed"),
               ({"prompt_ids": [1] * 600}, "CONTEXT_LENGTH_EXCEEDED", "600"),
               ({"prompt": "text"}, None, "tokenizer")]
        lines = [good]
        for line, _, _ in bad:
            lines += [line, good]
        results = cli.run_lines("generate", "--batch", "--model", cli.TINY, *cli.SMALL_KV,
                                *GREEDY, lines=lines)
        for result in results[0::2]:
            self.assertEqual(result["choices"][0]["token_ids"], [118, 141])
        for (line, reason, part), result in zip(bad, results[1::2]):
            with self.subTest(line=str(line)[:60]):
                error = result["error"]
                if reason:
                    self.assertEqual(error["reason"], reason)
                self.assertIn(part, error["message"])


    def test_deep_nesting_is_refused_and_the_rest_go_on(self):
        deep = "[" * 100_000 + "]" * 100_000
        result = cli.run("generate", "--batch", "--model", cli.TINY, *cli.SMALL_KV, *GREEDY,
                         stdin=f'{{"prompt_ids": {deep}}}\n'
                         '{"prompt_ids": [379], "max_tokens": 2}\n')
        self.assertEqual(result.code, cli.OK)
        refused, answered = result.json_lines()
        self.assertIn("nested deeper than 128", refused["error"]["message"])
        self.assertEqual(answered["choices"][0]["token_ids"], [118, 141])

    def start(self, *args):
        return subprocess.Popen(
            [cli.BINARY, "generate", "--batch", "--model", cli.TINY, *cli.SMALL_KV, *GREEDY,
             "--max-tokens", "2", *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def test_an_interrupt_ends_it_while_it_waits_for_a_line(self):
        with self.start() as process:
            process.stdin.write(b'{"prompt_ids": [379]}\n')
            process.stdin.flush()
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(cli.TIMEOUT_S), cli.INTERRUPTED)

    def test_an_interrupt_leaves_lines_unread(self):
        count = 10_000  # their results do not fit in the pipe
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
            file.write('{"prompt_ids": [379]}\n' * count)
            file.flush()
            with self.start("--file", file.name) as process:
                process.stdout.readline()
                process.send_signal(signal.SIGINT)
                out, _ = process.communicate(timeout=cli.TIMEOUT_S)
        self.assertEqual(process.returncode, cli.INTERRUPTED)
        self.assertLess(out.count(b"\n"), count - 1)


class ExitCodes(unittest.TestCase):
    def expect(self, code, *args, parts=(), stdin=""):
        result = cli.run(*args, stdin=stdin)
        self.assertEqual(result.code, code, result.err)
        for part in parts:
            self.assertIn(part, result.err)
        return result

    def test_usage(self):
        self.expect(cli.USAGE, "dance", parts=['"dance"', "--help"])
        self.expect(cli.USAGE, parts=())
        for command in ("serve", "generate", "chat", "inspect", "tokenize", "detokenize",
                        "template", "eval"):
            self.expect(cli.USAGE, command, "--no-such-flag",
                        parts=["--no-such-flag", f"quire {command} --help"])
            self.assertIn("Examples:", self.expect(cli.OK, command, "--help").out)
        self.expect(cli.USAGE, "serve", parts=["MODEL"])
        self.expect(cli.USAGE, "serve", "m", "--kv-cache", "4GG", parts=["--kv-cache", "4GG"])
        self.expect(cli.USAGE, "serve", "m", "--block-size", "33", parts=["--block-size", "33"])
        self.expect(cli.USAGE, "serve", "m", "--admission", "x", parts=["--admission", '"x"'])
        self.expect(cli.USAGE, "serve", "m", "--threads", "1", "--threads", "2",
                    parts=["--threads"])
        self.expect(cli.USAGE, "serve", cli.TINY, "--max-num-batched-tokens", "64",
                    parts=["--max-num-batched-tokens is 64", "--max-num-seqs is 64"])
        self.expect(cli.USAGE, "generate", "--model", cli.TINY, "--prompt-ids", "1,a",
                    parts=["--prompt-ids", "1,a"])
        self.expect(cli.USAGE, "generate", "a", "--file", "b", parts=["--file"])
        self.expect(cli.USAGE, "generate", "--messages", "no/such.json", parts=["no/such.json"])
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write("[" * 100_000 + "]" * 100_000)
            file.flush()
            self.expect(cli.USAGE, "generate", "--messages", file.name,
                        parts=[file.name, "nested deeper than 128"])
        self.expect(cli.USAGE, "serve", "m", "--max-request-seconds", "4294968",
                    parts=["--max-request-seconds", '"4294968" is not from 1 to 4294967'])
        self.expect(cli.MODEL_FILES, "serve", "no/such", "--max-request-seconds", "4294967",
                    "--listen", "127.0.0.1:0")
        self.expect(cli.USAGE, "generate", "a", "--address", "b:1", "--model", "c",
                    parts=["--address", "--model"])
        self.expect(cli.USAGE, "template", parts=["--model", "--template"])

    def test_model_files(self):
        for command in (["serve", "no/such"], ["generate", "--model", "no/such", "x"],
                        ["chat", "--model", "no/such", "x"], ["eval", "--model", "no/such"]):
            self.expect(cli.MODEL_FILES, *command, parts=["no/such"])

    def test_memory_and_port(self):
        self.expect(cli.RESOURCES, "serve", cli.TINY, "--listen", "127.0.0.1:0", "--kv-cache",
                    "100T", parts=["--kv-cache", "100 TiB"])
        self.expect(cli.RESOURCES, "serve", cli.TINY, "--listen", "127.0.0.1:0", "--kv-cache",
                    "100", parts=["--kv-cache", "100"])
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.expect(cli.RESOURCES, "serve", cli.TINY, "--listen", address, parts=[address])
        self.expect(cli.USAGE, "serve", cli.TINY, "--listen", "nonsense", parts=["nonsense"])

    def test_unreachable(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{unused.getsockname()[1]}"
            for command in (["generate", "x"], ["chat", "x"]):
                result = self.expect(cli.UNREACHABLE, *command, "--address", address,
                                     parts=[address, "quire serve"])
                self.assertEqual(result.err.count("\n"), 1)
            result = self.expect(cli.UNREACHABLE, "generate", "x", "--json", "--address", address)
            self.assertEqual(result.json()["error"]["code"], "UNAVAILABLE")

    def test_refused(self):
        result = self.expect(cli.REFUSED, "generate", "--model", cli.TINY, *cli.SMALL_KV,
                             "--prompt-ids", "7,512", "--json", parts=["512"])
        error = result.json()["error"]
        self.assertEqual(list(error), ["code", "reason", "message", "metadata"])
        self.assertEqual((error["code"], error["reason"]), ("INVALID_ARGUMENT", "INVALID_FIELD"))
        result = self.expect(cli.REFUSED, "generate", "--model", cli.TINY, *cli.SMALL_KV,
                             "--prompt-ids", "7", "--max-tokens", "100k", "--json")
        error = result.json()["error"]
        self.assertEqual(error["reason"], "CONTEXT_LENGTH_EXCEEDED")
        self.assertIn("512", error["metadata"].values())
        self.expect(cli.REFUSED, "generate", "--model", cli.TINY, *cli.SMALL_KV, "--prompt-ids",
                    "7", "--temperature", "nan", parts=["temperature"])
        self.expect(cli.REFUSED, "generate", "--model", cli.BYTE_MODEL, *cli.SMALL_KV, stdin="",
                    parts=["prompt"])

    def test_interrupted(self):
        process = subprocess.Popen(
            [cli.BINARY, "generate", "--model", cli.BYTE_MODEL, *cli.SMALL_KV, "--ignore-eos",
             "--json", "--stream", "Hello"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            process.stdout.readline()  # it was accepted
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=cli.TIMEOUT_S)
        self.assertEqual(process.returncode, cli.INTERRUPTED)
        # Where there is nothing to cancel it ends all the same.
        process = subprocess.Popen(
            [cli.BINARY, "tokenize", "--model", cli.BYTE_MODEL], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE)
        with process:
            process.stdin.write(b'{"text": "a"}\n')
            process.stdin.flush()
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(cli.TIMEOUT_S), cli.INTERRUPTED)


class Serve(unittest.TestCase):
    def test_a_running_server_answers_and_goes_on_after_bad_requests(self):
        with cli.Serving(cli.TINY, "--served-model-name", "house", "--model-alias",
                         "other") as server:
            ask = ["generate", "--address", server.address, *GREEDY, "--max-tokens", "2",
                   "--json"]
            for name in ("house", "other"):
                answer = cli.run(*ask, "--prompt-ids", "379", "--served-model", name).json()
                self.assertEqual(answer["choices"][0]["token_ids"], [118, 141])
                self.assertEqual(answer["model"], "house")
            result = cli.run(*ask, "--prompt-ids", "379", "--served-model", "nobody")
            self.assertEqual(result.code, cli.REFUSED)
            self.assertEqual(result.json()["error"]["reason"], "MODEL_NOT_FOUND")
            result = cli.run(*ask, "--prompt-ids", "512")
            self.assertEqual(result.code, cli.REFUSED)
            answer = cli.run(*ask, "--prompt-ids", "379").json()
            self.assertEqual(answer["choices"][0]["token_ids"], [118, 141])
            self.assertEqual(server.stop(), cli.OK)

    def test_the_summary_says_what_is_served(self):
        with cli.Serving(cli.TINY, "--threads", "1", "--max-num-seqs", "3", "--numerics",
                         "bf16x32") as server:
            self.assertEqual(server.summary["level"], "info")
            for part in ("serving llama_mha", "LlamaForCausalLM", "BF16 weights", "bf16x32",
                         "1 thread", "KV cache ", " blocks of 32 tokens", "max sequences 3",
                         "max length 512", server.address):
                self.assertIn(part, server.summary["message"])
            self.assertEqual(server.stop(signal.SIGINT), cli.OK)

    def test_an_open_address_is_warned_of(self):
        with cli.Serving(cli.TINY, listen="0.0.0.0:0") as server:
            self.assertTrue(any("can be reached by others" in line for line in server.log))
        with cli.Serving(cli.TINY) as server:
            self.assertFalse(any("can be reached by others" in line for line in server.log))

    def test_a_drain_lets_running_requests_finish(self):
        with cli.Serving(cli.BYTE_MODEL) as server:
            client = subprocess.Popen(
                [cli.BINARY, "generate", "--address", server.address, *GREEDY, "--max-tokens",
                 "100", "--json", "--stream", "Hello"], stdout=subprocess.PIPE, text=True)
            with client:
                lines = [client.stdout.readline(), client.stdout.readline()]
                self.assertIn("delta", lines[1])  # it runs
                self.assertEqual(server.stop(), cli.OK)
                lines += client.stdout.readlines()
            self.assertEqual(client.returncode, cli.OK)
            self.assertIn("finished", lines[-1])

    def test_a_second_signal_ends_at_once(self):
        with cli.Serving(cli.BYTE_MODEL, drain_delay="1000") as server:
            server.process.send_signal(signal.SIGTERM)
            server.wait_in_log("draining")
            self.assertEqual(server.stop(), cli.INTERRUPTED)


if __name__ == "__main__":
    cli.main()

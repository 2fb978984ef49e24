#!/usr/bin/env python3
"""`quire chat`: one question, a conversation through pipes, a conversation on a terminal."""

import json
import os
import pty
import re
import signal
import subprocess
import tempfile
import unittest

import cli

GREEDY = ["--temperature", "0", "--max-tokens", "24"]


class Screen:
    """A chat on a terminal of its own."""

    def __init__(self, *args, **env):
        try:
            self.fd, terminal = pty.openpty()
        except OSError as error:
            raise unittest.SkipTest(f"no pseudo-terminal to be had here: {error}") from error
        self.process = subprocess.Popen(
            [cli.BINARY, "chat", *args], stdin=terminal, stdout=terminal, stderr=terminal,
            start_new_session=True, env={**os.environ, "TERM": "xterm", **env},
            # The terminal becomes the one that Ctrl-C comes from.
            preexec_fn=lambda: cli.make_controlling_terminal(0))
        os.close(terminal)
        self.shown = ""

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait_for(self, pattern):
        """Reads until something new matches; returns all that is new up to there."""
        while True:
            found = re.search(pattern, self.shown)
            if found:
                before = self.shown[:found.end()]
                self.shown = self.shown[found.end():]
                return before
            try:
                more = os.read(self.fd, 4096)
            except OSError:  # the other side is closed
                more = b""
            assert more, f"no {pattern!r} in what came: {self.shown!r}"
            self.shown += more.decode(errors="replace")

    def wait_for_end(self):
        try:
            while os.read(self.fd, 4096):
                pass
        except OSError:
            pass
        return self.process.wait(cli.TIMEOUT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.fd)


@cli.needs(cli.SMOLLM2, "SmolLM2")
class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # The golden answers are those of the weights as bf16.
        cls.serving = cli.Serving(cli.SMOLLM2, "--numerics", "bf16x2", kv_cache="256MiB")
        cls.server = cls.serving.__enter__()
        cls.at = ["--address", cls.server.address]

    @classmethod
    def tearDownClass(cls):
        cls.serving.__exit__()

    def answer_to(self, *messages):
        """What the model says after these turns, by `generate`."""
        roles = ("user", "assistant")
        turns = [{"role": roles[i % 2], "content": text} for i, text in enumerate(messages)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(turns, file)
            file.flush()
            return cli.run("generate", *self.at, *GREEDY, "--messages", file.name, "--json"
                           ).json()["choices"][0]["text"]

    @cli.needs(os.path.join(cli.GOLDEN, "smollm2"), "the golden data of SmolLM2")
    def test_one_question_gives_the_golden_answer(self):
        for row in cli.read_jsonl(cli.GOLDEN, "smollm2", "greedy.jsonl")[:8]:
            if min(row["gaps"]) < 0.1 or len(row["tokens"]) > 24:
                continue
            result = cli.run("chat", *self.at, *GREEDY, row["prompt"])
            self.assertEqual((result.code, result.out, result.err),
                             (cli.OK, row["text"] + "\n", ""))

    def test_one_question(self):
        question = "Which city is the capital of France?"
        result = cli.run("chat", *self.at, *GREEDY, question)
        self.assertEqual(result.code, cli.OK, result.err)
        self.assertEqual(result.out, self.answer_to(question) + "\n")
        self.assertIn("Paris", result.out)

    def test_a_conversation_remembers_until_it_is_reset(self):
        first, second = "My name is Ada.", "What is my name?"
        answer = self.answer_to(first)
        with_history = self.answer_to(first, answer, second)
        result = cli.run("chat", *self.at, *GREEDY,
                         stdin=f"{first}\n\n{second}\n/reset\n{second}\n/quit\nnot asked\n")
        self.assertEqual(result.code, cli.OK, result.err)
        self.assertEqual(result.out, f"{answer}\n{with_history}\n{self.answer_to(second)}\n")

    def test_a_failed_question_is_told_and_forgotten(self):
        question = "Which city is the capital of France?"
        result = cli.run("chat", *self.at, *GREEDY, stdin=f"{'word ' * 9000}\n{question}\n")
        self.assertEqual(result.code, cli.OK)
        self.assertIn("CONTEXT_LENGTH_EXCEEDED", result.err)
        self.assertEqual(result.out, self.answer_to(question) + "\n")
        result = cli.run("chat", *self.at, "word " * 9000)
        self.assertEqual(result.code, cli.REFUSED)

    def test_the_system_prompt_is_used(self):
        result = cli.run("chat", *self.at, *GREEDY, "--system", "Answer in French.", "Hello")
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump([{"role": "system", "content": "Answer in French."},
                       {"role": "user", "content": "Hello"}], file)
            file.flush()
            expected = cli.run("generate", *self.at, *GREEDY, "--messages", file.name, "--json")
        self.assertEqual(result.out, expected.json()["choices"][0]["text"] + "\n")

    def test_ctrl_c_stops_the_answer_and_not_the_program(self):
        with Screen(*self.at, "--temperature", "0", "--ignore-eos") as screen:
            screen.wait_for("you> ")
            screen.type("Count to a million.\n")
            screen.wait_for(r"million\.\r\n.*\w+")  # words come
            screen.type("\x03")
            screen.wait_for(r"\[stopped\]")
            screen.wait_for("you> ")
            screen.type("/help\n")
            screen.wait_for("/reset forgets")
            screen.wait_for("you> ")
            screen.type("\x03")
            screen.wait_for("Ctrl-C again")
            screen.wait_for("you> ")
            screen.type("\x03")
            self.assertEqual(screen.wait_for_end(), cli.INTERRUPTED)

    def test_ctrl_d_ends(self):
        with Screen(*self.at, *GREEDY) as screen:
            screen.wait_for("you> ")
            screen.type("Hi\n")
            screen.wait_for(r"\[\d+ tokens, the first after \d+ ms")
            screen.wait_for("you> ")
            screen.type("\x04")
            self.assertEqual(screen.wait_for_end(), cli.OK)

    def test_colours_are_for_terminals_without_no_color(self):
        with Screen(*self.at) as screen:
            self.assertIn("\x1b[", screen.wait_for("you> "))
        with Screen(*self.at, NO_COLOR="1") as screen:
            self.assertNotIn("\x1b[", screen.wait_for("you> "))
        self.assertNotIn("\x1b[", cli.run("chat", *self.at, stdin="/help\n").err)

    def test_an_interrupted_question_is_130(self):
        process = subprocess.Popen(
            [cli.BINARY, "chat", *self.at, "--temperature", "0", "--ignore-eos", "Count."],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            process.stdout.read(1)  # it answers
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=cli.TIMEOUT_S)
        self.assertEqual(process.returncode, cli.INTERRUPTED)


class WithoutText(unittest.TestCase):
    def test_a_model_without_a_template_says_so(self):
        result = cli.run("chat", "--model", cli.TINY, *cli.SMALL_KV, "Hi")
        self.assertEqual(result.code, cli.REFUSED)
        self.assertIn("tokenizer", result.err)


if __name__ == "__main__":
    cli.main()

"""What README.md tells a newcomer works as it stands there, and with the default model."""

import io
import json
import os
import re
import subprocess
import sys
import unittest
from contextlib import redirect_stdout

from quire_server import BINARY, GOLDEN, ROOT, Server, pb, smollm2, tokenizer_pb2


class ReadmeTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # A small model that is asked without a limit may talk until its context is full.
        cls.server = Server(smollm2(), "--max-output-tokens", "200")
        cls.addClassCleanup(cls.server.stop)
        with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as readme:
            cls.readme = readme.read()

    def test_the_first_request_from_python(self):
        (code,) = re.findall(r"```python\n(.*?)```", self.readme, re.S)
        output = io.StringIO()
        with redirect_stdout(output):
            exec(code.replace("127.0.0.1:50051", self.server.address), {})  # pylint: disable=W0122
        self.assertIn("Paris", output.getvalue())

    def test_the_first_requests_from_the_command_line(self):
        commands = re.findall(r"^build/release/quire ((?:chat|generate) .*)$", self.readme, re.M)
        self.assertEqual(len(commands), 3)
        for command in commands:
            name, rest = command.split(" ", 1)
            done = subprocess.run(
                f'"$QUIRE" {name} --address {self.server.address} {rest}', shell=True, text=True,
                env={**os.environ, "QUIRE": BINARY}, stdin=subprocess.DEVNULL, capture_output=True,
                timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(len(done.stdout.split()), 3)

    def test_every_link_leads_to_a_file(self):
        for link in re.findall(r"\]\(([^)#:]+)\)", self.readme):
            with self.subTest(link):
                self.assertTrue(os.path.exists(os.path.join(ROOT, link)))

    def test_greedy_answers_are_those_of_the_reference(self):
        path = os.path.join(GOLDEN, "smollm2", "greedy.jsonl")
        if not os.path.isfile(path):
            self.skipTest(f"{path} is not there (QUIRE_GOLDEN)")
        with open(path, encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        compared = 0
        # The mode of the golden texts: they are of the weights as bf16.
        server = Server(smollm2(), "--numerics", "bf16x2")
        self.addCleanup(server.stop)
        for row in rows[:10]:
            answer = server.ask(pb.GenerateRequest(
                chat=pb.Chat(messages=[pb.Message(role="user", content=row["prompt"])]),
                params=pb.GenerationParams(temperature=0, max_tokens=len(row["tokens"])),
                return_prompt_token_ids=True))
            self.assertEqual(answer.accepted.prompt_tokens, len(row["prompt_ids"]))
            count = next((i for i, gap in enumerate(row["gaps"]) if gap < 0.1), len(row["gaps"]))
            self.assertEqual(answer.tokens[:count], row["tokens"][:count], row["prompt"])
            compared += count
            if answer.tokens == row["tokens"]:
                self.assertEqual(answer.text, row["text"])
        print(f"{compared} tokens compared", file=sys.stderr)
        self.assertGreater(compared, 50)

    def test_all_text_joined_is_the_text_of_all_tokens(self):
        answer = self.server.ask(pb.GenerateRequest(
            text="Emoji and accents: ", params=pb.GenerationParams(
                temperature=2, seed=3, max_tokens=200, ignore_eos=True)))
        whole = self.server.tokenizer.Detokenize(
            tokenizer_pb2.DetokenizeRequest(token_ids=answer.tokens), timeout=10)
        self.assertEqual(answer.text, whole.text)
        self.assertEqual(len(answer.tokens), 200)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""`quire tokenize`, `detokenize` and `template` in bulk, against the goldens of other libraries."""

import json
import os
import tempfile
import unittest

import cli


def sources(folder):
    """A tokenizer as a folder, and as a .gguf file."""
    if os.path.exists(os.path.join(folder, "tokenizer.json")):
        yield folder, True
    if os.path.exists(os.path.join(folder, "vocab.gguf")):
        yield os.path.join(folder, "vocab.gguf"), False


# These have a format of their own and are read by tests/server/text.
OTHER_FORMATS = ("pre_tokenizers", "unigram_bytes", "unigram_nfkc")


def tokenizers(needed_file):
    return [(name, folder) for name, folder in cli.golden_folders("tokenizers", needed_file)
            if name not in OTHER_FORMATS]


class Tokenizers(unittest.TestCase):
    def test_there_are_goldens(self):
        names = [name for name, _ in tokenizers("cases.jsonl")]
        for own in ("own_bpe_digits", "own_bpe_llama3", "own_spm", "own_unigram"):
            self.assertIn(own, names)

    def test_text_to_ids_is_equal(self):
        for name, folder in tokenizers("cases.jsonl"):
            for model, is_folder in sources(folder):
                cases = cli.read_jsonl(folder, "cases.jsonl")
                if is_folder and os.path.exists(os.path.join(folder, "cases_hf.jsonl")):
                    cases += cli.read_jsonl(folder, "cases_hf.jsonl")
                lines = [{k: case[k] for k in ("text", "add_special", "parse_special")}
                         for case in cases]
                with self.subTest(tokenizer=name, model=os.path.basename(model)):
                    results = cli.run_lines("tokenize", "--model", model, lines=lines)
                    for case, result in zip(cases, results):
                        self.assertEqual(result, {"ids": case["ids"]}, case["text"])

    def test_ids_to_text_is_equal(self):
        for name, folder in tokenizers("cases.jsonl"):
            cases = cli.read_jsonl(folder, "cases.jsonl")
            for model, _ in sources(folder):
                for skip, key in ((False, "decoded"), (True, "decoded_skip")):
                    with self.subTest(tokenizer=name, model=os.path.basename(model), skip=skip):
                        results = cli.run_lines("detokenize", "--model", model, lines=[
                            {"ids": case["ids"], "skip_special_tokens": skip} for case in cases])
                        for case, result in zip(cases, results):
                            self.assertEqual(result["text"], case[key], case["ids"])
                            self.assertEqual("".join(result["pieces"]), case[key])

    def test_pieces_are_those_of_a_stream(self):
        for name, folder in tokenizers("stream.jsonl"):
            # Where a run of byte tokens is not UTF-8 an early release cannot equal the text.
            cases = [case for case in cli.read_jsonl(folder, "stream.jsonl")
                     if case.get("valid", True)]
            for model, _ in sources(folder):
                with self.subTest(tokenizer=name, model=os.path.basename(model)):
                    results = cli.run_lines("detokenize", "--model", model, lines=[
                        {"ids": case["ids"], "skip_special_tokens": case["skip_special"]}
                        for case in cases])
                    for case, result in zip(cases, results):
                        self.assertEqual(result["text"], case["text"])
                        if "pieces_eager" in case:
                            self.assertEqual(result["pieces"][:len(case["ids"])],
                                             case["pieces_eager"])
                            continue
                        flush = [case["flush"]] if case["flush"] else []
                        self.assertEqual(result["pieces"], case["pieces"] + flush)


class Overrides(unittest.TestCase):
    """--override-kv puts values into a GGUF file's metadata for the commands about text too."""

    def test_the_tokenizer_is_as_the_overrides_say(self):
        line = [{"text": "Hi", "add_special": True}]
        plain = cli.run_lines("tokenize", "--model", cli.BYTE_MODEL, lines=line)
        with_bos = cli.run_lines("tokenize", "--model", cli.BYTE_MODEL, "--override-kv",
                                 "tokenizer.ggml.add_bos_token=bool:true", "--override-kv",
                                 "tokenizer.ggml.bos_token_id=int:5", lines=line)
        self.assertEqual(with_bos, [{"ids": [5] + plain[0]["ids"]}])

    def test_the_template_is_what_an_override_says(self):
        result = cli.run_lines(
            "template", "--model", cli.BYTE_MODEL, "--override-kv",
            "tokenizer.chat_template=str:<{{ messages[0].content }}>",
            lines=[{"messages": [{"role": "user", "content": "Hi"}]}])
        self.assertEqual(result, [{"text": "<Hi>"}])

    def test_folders_have_none(self):
        folder = os.path.join(cli.DATA, "tokenizers", "own_bpe_llama3")
        for command in ("tokenize", "detokenize", "template"):
            result = cli.run(command, "--model", folder, "--override-kv", "a.b=int:1")
            self.assertEqual(result.code, cli.USAGE, command + result.err)
            self.assertIn("no GGUF file", result.err)


class Templates(unittest.TestCase):
    def test_rendering_is_equal(self):
        folders = cli.golden_folders("templates", "cases.jsonl")
        if not folders:
            self.skipTest(f"templates of third parties are not there: {cli.GOLDEN}")
        fields = ("messages", "tools", "add_generation_prompt", "continue_final_message", "kwargs",
                  "now")
        for name, folder in folders:
            cases = cli.read_jsonl(folder, "cases.jsonl")
            lines = [{k: case[k] for k in fields if k in case} for case in cases]
            with self.subTest(template=name):
                results = cli.run_lines(
                    "template", "--template", os.path.join(folder, "chat_template.jinja"),
                    "--special-tokens", os.path.join(folder, "special_tokens.json"), lines=lines)
                for case, result in zip(cases, results):
                    if not case.get("error"):
                        self.assertEqual(result, {"text": case["expect"]})
                    elif case["error_kind"] == "raise_exception":
                        self.assertIn(case["message"], result["error"]["message"])

    @cli.needs(cli.SMOLLM2, "SmolLM2")
    def test_a_gguf_brings_its_template(self):
        [result] = cli.run_lines("template", "--model", cli.SMOLLM2, lines=[
            {"messages": [{"role": "system", "content": "Be brief."},
                          {"role": "user", "content": "Hi"}]}])
        self.assertEqual(result["text"], "<|im_start|>system\nBe brief.<|im_end|>\n"
                         "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")


class BadLines(unittest.TestCase):
    MODEL = os.path.join(cli.DATA, "tokenizers", "own_bpe_digits")

    def results(self, command, text):
        result = cli.run(command, "--model", self.MODEL, stdin=text)
        self.assertEqual(result.code, cli.OK)
        return result.json_lines(), result.err

    def test_a_line_that_fails_is_a_result_and_the_rest_go_on(self):
        good = {"text": "The", "add_special": False}
        bad = [("{", "not JSON"), ("[1]", "expected a JSON object"), ("{}", "text: expected"),
               ('{"text": 3}', "text: expected a string, found 3"),
               ('{"text": "a", "add_special": "yes"}', 'found "yes"'),
               ('{"text": "a", "speed": 1}', 'no field "speed"')]
        lines = [json.dumps(good)]
        for line, _ in bad:
            lines += [line, json.dumps(good)]
        results, err = self.results("tokenize", "\n".join(lines) + "\n\n")
        self.assertEqual(len(results), len(lines))
        for result in results[0::2]:
            self.assertEqual(result, {"ids": [525]})  # stream.jsonl begins so
        for (_, part), result in zip(bad, results[1::2]):
            self.assertEqual(sorted(result["error"]), ["code", "message", "metadata", "reason"])
            self.assertEqual(result["error"]["code"], "INVALID_ARGUMENT")
            self.assertIn(part, result["error"]["message"])
        self.assertEqual(results[-2]["error"]["reason"], "UNKNOWN_FIELD")
        self.assertIn(f"{len(bad)} of {len(lines)} lines failed", err)

    def test_deep_nesting_is_refused_and_the_rest_go_on(self):
        good = {"text": "The", "add_special": False}
        for deep in ("[" * 100_000, '{"text": ' + "[" * 100_000 + "]" * 100_000 + "}"):
            results, _ = self.results("tokenize", f"{deep}\n{json.dumps(good)}\n")
            self.assertIn("nested deeper than 128", results[0]["error"]["message"])
            self.assertEqual(results[1], {"ids": [525]})

    def test_deeply_nested_kwargs_are_refused(self):
        with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
            file.write("{{ messages[0].content }}")
            file.flush()
            message = '"messages": [{"role": "user", "content": "Hi"}]'
            deep = "[" * 100_000 + "]" * 100_000
            result = cli.run("template", "--template", file.name, stdin=(
                f'{{{message}, "kwargs": {{"a": {deep}}}}}\n{{{message}}}\n'))
        self.assertEqual(result.code, cli.OK)
        refused, answered = result.json_lines()
        self.assertIn("nested deeper than 128", refused["error"]["message"])
        self.assertEqual(answered, {"text": "Hi"})

    def test_a_folder_has_no_lines(self):
        with tempfile.TemporaryDirectory() as folder:
            for command in ("tokenize", "detokenize"):
                result = cli.run(command, "--model", self.MODEL, "--file", folder)
                self.assertEqual(result.code, cli.USAGE)
                self.assertEqual(result.err,
                                 f"quire: cannot read {folder} to its end: is it a file?\n")

    def test_ids_without_a_token_are_named(self):
        results, _ = self.results(
            "detokenize", '{"ids": [1, 123456]}\n{"ids": [-1]}\n{"ids": [99999999999]}\n')
        for result, value in zip(results, ("123456", "-1", "99999999999")):
            self.assertIn(value, result["error"]["message"])

    def test_invalid_utf8_is_refused(self):
        done = cli.subprocess.run([cli.BINARY, "tokenize", "--model", self.MODEL],
                                  input=b'{"text": "\xff"}\n', capture_output=True,
                                  timeout=cli.TIMEOUT_S)
        self.assertEqual(json.loads(done.stdout)["error"]["code"], "INVALID_ARGUMENT")

    def test_a_missing_tokenizer_is_named(self):
        for command in ("tokenize", "detokenize", "template"):
            result = cli.run(command, "--model", cli.TINY)
            self.assertEqual(result.code, cli.MODEL_FILES)
            self.assertIn("tokenizer.json", result.err)


if __name__ == "__main__":
    cli.main()

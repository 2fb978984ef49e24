#!/usr/bin/env python3
"""`quire eval` against logits of transformers."""

import math
import os
import unittest

import cli


class TinyModels(unittest.TestCase):
    def test_log_probabilities_are_those_of_the_golden_logits(self):
        for model in cli.read_jsonl(cli.DATA, "models", "models.jsonl"):
            folder = os.path.join(cli.DATA, "models", model["name"])
            if model["family"] != "llama" or not os.path.isdir(folder):
                continue
            golden = cli.read_safetensors(os.path.join(folder, "golden.safetensors"))
            # transformers takes the base of dynamic rope from the prompt at hand, we from
            # --max-model-len: they agree up to the length that the model was made for.
            is_dynamic = model["name"] == "llama_rope_dynamic"
            flags = ["--max-model-len", "64"] if is_dynamic else []
            numbers = range(2 if is_dynamic else 3)
            prompts = [golden[f"prompt.{i}"][1] for i in numbers]
            logits = [cli.rows(golden[f"logits.{i}"]) for i in numbers]
            results = cli.run_lines(
                "eval", "--model", folder, *cli.SMALL_KV, *flags, "--top", "3",
                lines=[{"ids": list(prompt)} for prompt in prompts])
            with self.subTest(model=model["name"]):
                for prompt, rows, result in zip(prompts, logits, results):
                    self.compare(prompt, rows, result, model)

    def compare(self, prompt, rows, result, model):
        expected = [cli.log_softmax(row) for row in rows]
        n = len(prompt)
        self.assertEqual(len(result["logprobs"]), n - 1)
        self.assertEqual(len(result["argmax"]), n)
        self.assertEqual(len(result["top"]), n)
        # models/README: twice what bf16 alone does; a log probability has the error of two logits.
        most = 2 * 2 * model["bf16_max_over_std"] * model["logit_std"]
        errors = [result["logprobs"][i] - expected[i][prompt[i + 1]] for i in range(n - 1)]
        self.assertLess(max(abs(e) for e in errors), most)
        rms = math.sqrt(sum(e * e for e in errors) / len(errors))
        self.assertLess(rms, 2 * 2 * model["bf16_rms_over_std"] * model["logit_std"])
        for row, argmax, top in zip(expected, result["argmax"], result["top"]):
            best = max(row)
            self.assertLess(best - row[argmax], most)
            self.assertEqual(top[0]["token_id"], argmax)
            self.assertGreaterEqual(top[0]["logprob"], top[1]["logprob"])
            self.assertGreaterEqual(top[1]["logprob"], top[2]["logprob"])
        mean = sum(result["logprobs"]) / (n - 1)
        self.assertAlmostEqual(result["perplexity"], math.exp(-mean), delta=1e-9 * math.exp(-mean))

    def test_one_token_has_no_perplexity(self):
        [result] = cli.run_lines("eval", "--model", cli.TINY, *cli.SMALL_KV, lines=[{"ids": [5]}])
        self.assertEqual(result["logprobs"], [])
        self.assertEqual(len(result["argmax"]), 1)
        self.assertIsNone(result["perplexity"])

    def test_order_and_company_do_not_matter(self):
        lines = [{"ids": [(7 * i + j * j) % 512 for j in range(3 + 5 * i)]} for i in range(20)]
        alone = cli.run_lines("eval", "--model", cli.TINY, *cli.SMALL_KV, "--concurrency", "1",
                              lines=lines)
        together = cli.run_lines("eval", "--model", cli.TINY, *cli.SMALL_KV, "--concurrency", "16",
                                 lines=lines)
        self.assertEqual(alone, together)

    def test_bad_lines(self):
        good = {"ids": [1, 2]}
        bad = [({"ids": [512]}, "512"), ({"ids": []}, "not empty"), ({}, "ids and text"),
               ({"text": "a"}, "no tokenizer"), ({"ids": [1], "text": "a"}, "one of"),
               ({"ids": [1] * 600}, "600")]
        lines = [good]
        for line, _ in bad:
            lines += [line, good]
        results = cli.run_lines("eval", "--model", cli.TINY, *cli.SMALL_KV, lines=lines)
        for result in results[0::2]:
            self.assertEqual(result, results[0])
        for (_, part), result in zip(bad, results[1::2]):
            self.assertEqual(result["error"]["code"], "INVALID_ARGUMENT")
            self.assertIn(part, result["error"]["message"])


@cli.needs(cli.SMOLLM2, "SmolLM2")
@cli.needs(os.path.join(cli.GOLDEN, "smollm2"), "the golden data of SmolLM2")
class SmolLM2(unittest.TestCase):
    def test_texts_have_the_golden_tokens_argmax_and_perplexity(self):
        folder = os.path.join(cli.GOLDEN, "smollm2")
        texts = cli.read_jsonl(folder, "teacher.jsonl")
        golden = cli.read_safetensors(os.path.join(folder, "teacher.safetensors"))
        results = cli.run_lines("eval", "--model", cli.SMOLLM2, "--kv-cache", "512MiB",
                                "--numerics", "bf16x2",
                                lines=[{"text": text["text"]} for text in texts])
        equal = total = 0
        for i, (text, result) in enumerate(zip(texts, results)):
            argmax = golden[f"argmax.{i}"][1]
            gaps = golden[f"gap.{i}"][1]
            self.assertEqual(len(result["argmax"]), len(argmax))
            for ours, theirs, gap in zip(result["argmax"], argmax, gaps):
                equal += ours == theirs
                total += 1
                if gap >= 0.5:
                    self.assertEqual(ours, theirs)
            errors = [abs(a - b) for a, b in
                      zip(result["logprobs"], golden[f"next_logprob.{i}"][1])]
            # deviation.json: 0.0111 by bf16 matrix inputs alone.
            self.assertLess(sum(errors) / len(errors), 0.03)
            self.assertLess(abs(result["perplexity"] / text["perplexity"] - 1), 0.01)
        # The limit of bf16_matmul_inputs_rest_fp32.
        self.assertGreaterEqual(equal / total, 0.9848)


if __name__ == "__main__":
    cli.main()

#!/usr/bin/env python3
"""What requests can ask, through a server with a real engine over tiny random models."""

import base64
import json
import os
import tempfile
import unittest

import cli

PROMPT = [72, 101, 108, 108, 111]
COMMON = {"prompt_ids": PROMPT, "max_tokens": 24, "ignore_eos": True}
GREEDY = {**COMMON, "temperature": 0}


def answers(lines, model=cli.BYTE_MODEL, concurrency="8"):
    return cli.run_lines("generate", "--batch", "--model", model, *cli.SMALL_KV, "--concurrency",
                         concurrency, lines=lines)


def token_of(character):
    [result] = cli.run_lines("tokenize", "--model", cli.BYTE_MODEL,
                             lines=[{"text": character, "add_special": False}])
    [token] = result["ids"]
    return token


def ids_of(answer):
    return answer["choices"][0]["token_ids"]


class Choices(unittest.TestCase):
    def test_the_first_of_several_is_the_only_one(self):
        lines = [{**COMMON, "seed": seed, "n": n} for seed in range(4) for n in (1, 4)]
        results = answers(lines)
        for one, four in zip(results[::2], results[1::2]):
            choices = four["choices"]
            self.assertEqual([choice["index"] for choice in choices], [0, 1, 2, 3])
            self.assertEqual(choices[0]["token_ids"], ids_of(one))
            self.assertEqual(len({str(choice["token_ids"]) for choice in choices}), 4)
            self.assertEqual(four["usage"]["completion_tokens"], 4 * 24)
            self.assertEqual(four["usage"]["prompt_tokens"], len(PROMPT))
            self.assertEqual(four["params"]["n"], 4)

    def test_text_shows_each_under_its_heading(self):
        command = ["generate", "--model", cli.BYTE_MODEL, *cli.SMALL_KV, "--n", "2", "--seed", "1",
                   "--max-tokens", "5", "--ignore-eos", "Hello"]
        shown = cli.run(*command).out
        choices = cli.run(*command, "--json").json()["choices"]
        for choice in choices:
            self.assertIn(f"--- choice {choice['index']} ---\n{choice['text']}\n", shown)


class Stops(unittest.TestCase):
    def test_text_ends_at_the_stop_string(self):
        [free] = answers([{**COMMON, "seed": 3}])
        text = free["choices"][0]["text"]
        stop = text[5:8]
        lines = [{**COMMON, "seed": 3, "stop": [stop]},
                 {**COMMON, "seed": 3, "stop": ["~never~", stop],
                  "include_stop_str_in_output": True}]
        for result, shown in zip(answers(lines), (0, len(stop))):
            [choice] = result["choices"]
            self.assertEqual(choice["text"], text[:text.index(stop) + shown])
            self.assertEqual(choice["finish_reason"], "STOP")
            self.assertEqual(choice["matched_stop"], {"string": stop})
            kept = choice["token_ids"]
            self.assertEqual(kept, free["choices"][0]["token_ids"][:len(kept)])
            self.assertEqual(result["usage"]["completion_tokens"], len(kept))

    def test_a_flag_repeats(self):
        result = cli.run("generate", "--model", cli.BYTE_MODEL, *cli.SMALL_KV, "--max-tokens", "3",
                         "--stop", "one", "--stop", "two", "--bad-words", "x", "--logit-bias",
                         "5:-1.5,7:2", "--json", "Hello")
        self.assertEqual(result.code, cli.OK, result.err)
        params = result.json()["params"]
        self.assertEqual(params["stop"], ["one", "two"])
        self.assertEqual(params["bad_words"], ["x"])
        self.assertEqual(params["logit_bias"], {"5": -1.5, "7": 2.0})


class Logprobs(unittest.TestCase):
    def test_they_are_what_eval_says_whatever_is_done_to_the_logits(self):
        lines = [{**GREEDY, "logprobs": 3, "prompt_logprobs": 2},
                 {**GREEDY, "logprobs": 3, "prompt_logprobs": 2, "repetition_penalty": 1.5,
                  "logit_bias": {"65": 4.0}}]
        for answer in answers(lines, concurrency="1"):
            [choice] = answer["choices"]
            ids = choice["token_ids"]
            [scored] = cli.run_lines("eval", "--model", cli.BYTE_MODEL, *cli.SMALL_KV, "--top", "3",
                                     lines=[{"ids": PROMPT + ids}])
            expected = scored["logprobs"]
            prompt, generated = answer["prompt_logprobs"], choice["logprobs"]
            self.assertEqual([entry["token_id"] for entry in prompt], PROMPT)
            self.assertEqual([entry["token_id"] for entry in generated], ids)
            self.assertEqual(prompt[0]["rank"], 0)
            for entry, value in zip(prompt[1:] + generated, expected):
                self.assertAlmostEqual(entry["logprob"], value, places=4)
            self.assertAlmostEqual(choice["cumulative_logprob"],
                                   sum(expected[len(PROMPT) - 1:]), places=3)
            for entry, top in zip(generated, scored["top"][len(PROMPT) - 1:]):
                self.assertEqual([t["token_id"] for t in entry["top"]],
                                 [t["token_id"] for t in top])
                inside = [t["token_id"] for t in entry["top"]].index(entry["token_id"]) + 1 \
                    if entry["token_id"] in [t["token_id"] for t in entry["top"]] else None
                if inside:
                    self.assertEqual(entry["rank"], inside)
                else:
                    self.assertGreater(entry["rank"], 3)

    def test_prompt_logprobs_are_all_there_after_a_prefix_hit(self):
        prompt = [(7 * i) % 256 for i in range(100)]
        line = {"prompt_ids": prompt, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
        first, hit, scored = answers([line, line, {**line, "prompt_logprobs": 0}], concurrency="1")
        self.assertGreater(hit["usage"]["cached_tokens"], 0)
        self.assertEqual(scored["usage"]["cached_tokens"], 0)
        self.assertEqual(len(scored["prompt_logprobs"]), 100)
        self.assertEqual(ids_of(scored), ids_of(first))
        [expected] = cli.run_lines("eval", "--model", cli.BYTE_MODEL, *cli.SMALL_KV,
                                   lines=[{"ids": prompt}])
        for entry, value in zip(scored["prompt_logprobs"][1:], expected["logprobs"]):
            self.assertAlmostEqual(entry["logprob"], value, places=4)

    def test_bytes_of_tokens_join_to_the_text(self):
        [answer] = answers([{**COMMON, "seed": 5, "logprobs": 0, "allowed_token_ids":
                             list(range(65, 91))}])
        [choice] = answer["choices"]
        joined = b"".join(base64.b64decode(e["token_bytes"]) for e in choice["logprobs"])
        self.assertEqual(joined.decode(), choice["text"])


class Rules(unittest.TestCase):
    def test_each_does_what_it_says(self):
        [free] = answers([GREEDY])
        favourite = ids_of(free)[0]
        allowed = [65, 66, 67]
        lines = [{**GREEDY, "logit_bias": {"65": 100}},
                 {**COMMON, "allowed_token_ids": allowed},
                 {**GREEDY, "stop_token_ids": [favourite], "min_tokens": 10},
                 {**GREEDY, "logit_bias": {"65": 60}, "frequency_penalty": 2,
                  "presence_penalty": 2},
                 {**GREEDY, "truncate_prompt_tokens": 2, "return_prompt_token_ids": True}]
        biased, limited, late, penalised, truncated = answers(lines)
        self.assertEqual(set(ids_of(biased)), {65})
        self.assertLessEqual(set(ids_of(limited)), set(allowed))
        self.assertNotIn(favourite, ids_of(late)[:10])
        self.assertIn(65, ids_of(penalised))
        self.assertLess(ids_of(penalised).count(65), 24 + 1)
        self.assertEqual(truncated["prompt_token_ids"], PROMPT[-2:])
        self.assertEqual(truncated["usage"]["prompt_tokens"], 2)

    def test_a_bad_word_does_not_come(self):
        common = {**COMMON, "seed": 9, "allowed_token_ids": [token_of("a"), token_of("b")]}
        free, banned = answers([common, {**common, "bad_words": ["ab"]}])
        self.assertIn("ab", free["choices"][0]["text"])
        self.assertNotIn("ab", banned["choices"][0]["text"])

    def test_rules_that_leave_nothing_are_refused(self):
        [result] = answers([{**GREEDY, "allowed_token_ids": [token_of("a")], "bad_words": ["a"]}])
        self.assertEqual(result["error"]["reason"], "NO_TOKEN_ALLOWED")

    def test_what_is_out_of_range_is_refused_with_the_numbers(self):
        [result] = answers([{**GREEDY, "n": 9}])
        self.assertEqual(result["error"]["reason"], "INVALID_FIELD")
        self.assertEqual(result["error"]["metadata"]["max"], "8")
        self.assertEqual(result["error"]["metadata"]["value"], "9")


class Chat(unittest.TestCase):
    @cli.needs(cli.SMOLLM2, "the default model")
    def test_conversations_may_be_written_as_openai_does(self):
        conversation = [
            {"role": "user", "content": [{"type": "text", "text": "What time"},
                                         {"type": "text", "text": " is it?"}]},
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": "c1", "type": "function",
                 "function": {"name": "clock", "arguments": "{\"zone\": \"CET\"}"}}]},
            {"role": "tool", "tool_call_id": "c1", "content": "12:00"},
            {"role": "assistant", "content": "It is"}]
        tools = [{"type": "function", "function": {"name": "clock"}}]
        plain = [dict(message) for message in conversation]
        plain[0]["content"] = "What time is it?"
        plain[1]["content"] = ""
        [expected] = cli.run_lines(
            "template", "--model", cli.SMOLLM2,
            lines=[{"messages": plain, "tools": tools, "add_generation_prompt": False,
                    "continue_final_message": True}])
        [ids] = cli.run_lines("tokenize", "--model", cli.SMOLLM2,
                              lines=[{"text": expected["text"], "add_special": False}])
        with tempfile.TemporaryDirectory() as folder:
            files = {}
            for name, value in (("messages", conversation), ("tools", tools)):
                files[name] = os.path.join(folder, name + ".json")
                with open(files[name], "w", encoding="utf-8") as file:
                    json.dump(value, file)
            result = cli.run("generate", "--model", cli.SMOLLM2, *cli.SMALL_KV, "--messages",
                             files["messages"], "--tools", files["tools"], "--template-args",
                             "{\"mood\": \"calm\"}", "--continue-final-message", "--max-tokens",
                             "2", "--temperature", "0", "--return-prompt-token-ids", "--json")
        self.assertEqual(result.code, cli.OK, result.err)
        self.assertEqual(result.json()["prompt_token_ids"], ids["ids"])

    def test_flags_of_a_conversation_need_one(self):
        result = cli.run("generate", "--model", cli.BYTE_MODEL, *cli.SMALL_KV,
                         "--template-args", "{}", "Hello")
        self.assertEqual(result.code, cli.USAGE)
        self.assertIn("--messages", result.err)


if __name__ == "__main__":
    cli.main()

#!/usr/bin/env python3
"""`quire inspect`: memory by the formula, what files hold, files that must be refused."""

import json
import os
import re
import resource
import subprocess
import tempfile
import unittest

import cli


def config(**changes):
    base = {"architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 32, "intermediate_size": 11008,
            "vocab_size": 32000, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5}
    return {**base, **changes}


class MemoryFormula(unittest.TestCase):
    def memory(self, model_config, *args):
        """Of a folder that holds a config.json and nothing else."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(model_config, file)
            by_folder = cli.run("inspect", folder, "--json", *args)
            by_file = cli.run("inspect", os.path.join(folder, "config.json"), "--json", *args)
        self.assertEqual(by_folder.code, cli.OK, by_folder.err)
        self.assertEqual(by_folder.json()["memory"], by_file.json()["memory"])
        return by_folder.json()["memory"]

    def test_mha(self):
        memory = self.memory(config(), "--context", "2048", "--sequences", "32", "--kv-dtype",
                             "fp16")
        self.assertEqual(memory["kv_bytes"], 34359738368)
        self.assertEqual(memory["kv_pool_bytes"], 34359738368)

    def test_gqa(self):
        memory = self.memory(config(num_key_value_heads=8), "--context", "32k", "--kv-dtype",
                             "fp16")
        self.assertEqual(memory["context"], 32000)  # k is 1000, K is 1024
        memory = self.memory(config(num_key_value_heads=8), "--context", "32K", "--kv-dtype",
                             "fp16")
        self.assertEqual(memory["kv_bytes"], 4294967296)

    def test_gqa_of_80_layers(self):
        memory = self.memory(config(hidden_size=8192, num_hidden_layers=80, num_attention_heads=64,
                                    num_key_value_heads=8))
        self.assertEqual(memory["kv_bytes_per_token"], 327680)
        self.assertEqual(memory["kv_bytes_per_token_mha"], 8 * 327680)

    def test_mqa(self):
        mha = self.memory(config())
        mqa = self.memory(config(num_key_value_heads=1))
        self.assertEqual(mqa["kv_bytes_per_token"] * 32, mha["kv_bytes_per_token"])
        self.assertEqual(mqa["kv_bytes_per_token_mha"], mha["kv_bytes_per_token"])

    def test_blocks_are_rounded_up(self):
        for block_size in (16, 32, 64):
            memory = self.memory(config(), "--context", "1001", "--sequences", "3", "--block-size",
                                 str(block_size))
            self.assertEqual(memory["kv_bytes"], 3 * 1001 * 524288)
            blocks = 3 * -(-1001 // block_size)
            self.assertEqual(memory["num_blocks"], blocks)
            self.assertEqual(memory["kv_pool_bytes"], blocks * block_size * 524288)

    def test_heads_are_padded_to_32(self):
        memory = self.memory(config(head_dim=80))
        self.assertEqual(memory["kv_bytes_per_token"], 2 * 32 * 32 * 96 * 2)

    def test_more_than_there_is_arithmetic_for(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config(), file)
            result = cli.run("inspect", folder, "--context", "1T", "--sequences", "1T")
        self.assertEqual(result.code, cli.USAGE)
        self.assertIn("4 EiB", result.err)

    def test_the_pool_is_what_a_server_allocates(self):
        with cli.Serving(cli.TINY, "--block-size", "64") as server:
            pool = re.search(r"KV cache (\d+) blocks of 64 tokens = (\d+) tokens, ([^;]*)",
                             server.summary["message"])
            blocks, tokens, size = pool.groups()
            self.assertEqual(size, "15.9 MiB")
        memory = cli.run("inspect", cli.TINY, "--json", "--context", tokens, "--block-size",
                         "64").json()["memory"]
        self.assertEqual(memory["num_blocks"], int(blocks))
        # 16 MiB hold so many blocks and not one more.
        self.assertLessEqual(memory["kv_pool_bytes"], 16 << 20)
        self.assertGreater(memory["kv_pool_bytes"] + memory["block_bytes"], 16 << 20)


class Contents(unittest.TestCase):
    def test_a_folder(self):
        shown = cli.run("inspect", cli.TINY, "--json").json()
        self.assertEqual(shown["family"]["name"], "llama")
        self.assertIn("LlamaForCausalLM", shown["family"]["reason"])
        self.assertEqual(shown["config"]["attention"], "MHA")
        [tiny] = [m for m in cli.read_jsonl(cli.DATA, "models", "models.jsonl")
                  if m["name"] == "llama_mha"]
        self.assertEqual(shown["tensors"]["parameters"], tiny["parameters"])
        self.assertEqual(shown["memory"]["parameters"], tiny["parameters"])
        self.assertEqual(shown["tensors"]["formats"]["BF16"]["bytes"], 2 * tiny["parameters"])
        self.assertIsNone(shown["tokenizer"])

    def test_parameters_by_formula_are_those_in_the_files(self):
        for name in sorted(os.listdir(os.path.join(cli.DATA, "models"))):
            folder = os.path.join(cli.DATA, "models", name)
            if not os.path.isdir(folder):
                continue
            with self.subTest(model=name):
                shown = cli.run("inspect", folder, "--json").json()
                self.assertEqual(shown["memory"]["parameters"], shown["tensors"]["parameters"])

    def test_a_gguf_file(self):
        shown = cli.run("inspect", os.path.join(cli.DATA, "gguf_types", "Q4_1.gguf"),
                        "--json").json()
        self.assertEqual(shown["kind"], "GGUF file")
        self.assertIn("general.architecture", shown["family"]["reason"])
        self.assertEqual(shown["config"]["attention"], "GQA")
        self.assertEqual(shown["tokenizer"]["vocab_size"], 320)
        self.assertIn("Q4_1", shown["tensors"]["formats"])

    def test_what_was_recognised_and_by_which_key(self):
        def config(name):
            shown = cli.run("inspect", os.path.join(cli.DATA, "models", name), "--json").json()
            return shown["family"], shown["config"]
        family, mistral = config("mistral_window")
        self.assertEqual(family["name"], "mistral")
        self.assertEqual(mistral["layer_windows"], [32, 32, 32])
        self.assertEqual(mistral["sources"]["window"], "sliding_window")
        _, qwen2 = config("qwen2")
        self.assertEqual((qwen2["qkv_bias"], qwen2["out_bias"]), (True, False))
        _, qwen3 = config("qwen3")
        self.assertTrue(qwen3["qk_norm"])
        self.assertEqual(qwen3["sources"]["rope"], "rope_parameters")
        _, smollm3 = config("smollm3")
        self.assertEqual(smollm3["layers_without_rope"], [2])
        self.assertEqual(smollm3["sources"]["no_rope"], "no_rope_layers")
        text = cli.run("inspect", os.path.join(cli.DATA, "models", "qwen2_mixed_window")).out
        self.assertIn("24 in layers 2-3 (sliding_window and layer_types)", text)
        self.assertIn("q, k, v (what the family always has)", text)

    def test_metadata_can_be_overridden(self):
        path = os.path.join(cli.DATA, "gguf_types", "Q4_1.gguf")
        shown = cli.run("inspect", path, "--json", "--override-kv", "llama.context_length=int:77",
                        "--override-kv", "llama.rope.freq_base=float:50000").json()
        self.assertEqual(shown["config"]["max_position_embeddings"], 77)
        self.assertEqual(shown["rope"]["theta"], 50000)
        with cli.Serving(path, "--override-kv", "llama.context_length=int:48") as server:
            self.assertIn("max length 48", server.summary["message"])
        for text, part in (("a=u8:1", "the type 'u8'"), ("llama.context_length", "no key before")):
            result = cli.run("inspect", path, "--override-kv", text)
            self.assertEqual(result.code, cli.USAGE)
            self.assertIn(part, result.err)
        result = cli.run("inspect", cli.TINY, "--override-kv", "llama.context_length=int:77")
        self.assertEqual(result.code, cli.USAGE)
        self.assertIn("no GGUF file", result.err)

    def test_for_people(self):
        shown = cli.run("inspect", cli.TINY, "--tensors").out
        for part in ("llama", "3 layers", "216512 parameters", "model.embed_tokens.weight"):
            self.assertIn(part, shown)


class BadFiles(unittest.TestCase):
    """Every row of bad.jsonl, in 2 s of processor time and bounded memory."""

    FOLDER = os.path.join(cli.DATA, "bad_files")

    def bounded(self, *args, file, most_bytes):
        process = subprocess.Popen(
            [cli.BINARY, *args, os.path.join(self.FOLDER, file)], stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most_bytes, most_bytes)))
        with process.stderr:
            err = process.stderr.read()
        # Not wait(): this one tells what the process has used. It closed stderr, so it ends.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, err, usage.ru_utime + usage.ru_stime

    def test_inspect_refuses_them(self):
        for row in cli.read_jsonl(self.FOLDER, "bad.jsonl"):
            with self.subTest(file=row["file"]):
                code, err, seconds = self.bounded("inspect", file=row["file"],
                                                  most_bytes=512 << 20)
                if row["must"] == "load":
                    self.assertEqual(code, cli.OK, err)
                    continue
                self.assertEqual(code, cli.MODEL_FILES, err)
                self.assertIn(row["file"], err)
                # What is wrong with which file, and what to do.
                self.assertEqual(err.count("\n"), 2, err)
                self.assertLess(seconds, 2)

    def test_serve_refuses_them(self):
        for row in cli.read_jsonl(self.FOLDER, "bad.jsonl"):
            if row["must"] == "load" or row["file"].endswith(".safetensors"):
                continue
            with self.subTest(file=row["file"]):
                code, err, seconds = self.bounded("serve", "--listen", "127.0.0.1:0",
                                                  "--metrics-listen", "",
                                                  file=row["file"], most_bytes=2 << 30)
                self.assertEqual(code, cli.MODEL_FILES, err)
                # Where it listens; what is wrong with which file; what to do.
                lines = err.splitlines()
                self.assertEqual(len(lines), 3, err)
                self.assertIn(row["file"], lines[1])
                self.assertLess(seconds, 2)

    def test_a_file_that_ends_too_early(self):
        with open(os.path.join(cli.DATA, "gguf_types", "Q8_0.gguf"), "rb") as file:
            whole = file.read()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "short.gguf")
            for size in (0, 3, 20, 1000, len(whole) // 2, len(whole) - 1):
                with open(path, "wb") as file:
                    file.write(whole[:size])
                result = cli.run("inspect", path)
                self.assertEqual(result.code, cli.MODEL_FILES, size)
                self.assertIn("short.gguf", result.err)

    def test_weights_that_link_to_themselves(self):
        for name in ("model.safetensors", "model.safetensors.index.json"):
            with tempfile.TemporaryDirectory() as folder:
                with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                    json.dump(config(), file)
                os.symlink(name, os.path.join(folder, name))
                result = cli.run("inspect", folder)
                self.assertEqual(result.code, cli.MODEL_FILES, result.err)
                self.assertIn(name, result.err)

    def test_what_is_not_there(self):
        for path in ("no/such/folder", "no/such/model.gguf", "no/config.json"):
            result = cli.run("inspect", path)
            self.assertEqual(result.code, cli.MODEL_FILES)
            self.assertIn(path, result.err)


if __name__ == "__main__":
    cli.main()

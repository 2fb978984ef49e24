#!/usr/bin/env python3
"""What other people's samplers leave of fixed logits: makes tests/golden/sampling.

Run once, without models, with transformers, torch and safetensors. LIBLLAMA names a shared library
that exports llama.cpp's C API (libllama.so, or the module of xllamacpp):

  LIBLLAMA=.../xllamacpp.abi3.so python make_sampling.py tests/golden/sampling

A case is kept only where fp32 and fp64 agree about every token, so that it says what the processor
means and not how it rounds. How many were dropped is printed.
"""

import ctypes
import json
import os
import sys

import numpy as np
import torch
from safetensors.numpy import save_file
from transformers.generation import logits_process as hf

FIELDS = ("temperature", "top_n_sigma", "min_p", "top_k", "typical_p", "top_p", "xtc_threshold")


def make_logits(rng):
    rows = {}
    for vocab_size, count in ((512, 6), (5000, 3)):
        for i in range(count):
            deviation = (3.0, 1.0, 6.0, 0.3, 2.0, 4.0)[i]
            row = rng.normal(0, deviation, vocab_size).astype(np.float32)
            if i == 2:  # a long flat tail below a few that matter
                row = np.where(rng.random(vocab_size) < 0.02, row + 8, row).astype(np.float32)
            rows[f"v{vocab_size}.{i}"] = row
    return rows


def parameter_sets(rng):
    """Each filter alone, at several strengths, then random combinations."""
    sets = []
    for name, values in (
        ("temperature", (0.3, 0.7, 1.5)),
        ("min_p", (0.01, 0.05, 0.3)),
        ("top_k", (1, 7, 50, 400)),
        ("typical_p", (0.2, 0.5, 0.9, 0.95)),
        ("top_p", (0.1, 0.5, 0.9, 0.99)),
        ("top_n_sigma", (0.5, 1.0, 2.0)),
        ("xtc_threshold", (0.002, 0.01, 0.05, 0.1)),
    ):
        sets += [{name: value} for value in values]
    for _ in range(24):
        one = {"temperature": float(np.float32(rng.uniform(0.4, 1.8)))}
        for name, low, high in (("min_p", 0.001, 0.1), ("typical_p", 0.3, 0.98),
                                ("top_p", 0.3, 0.98), ("top_n_sigma", 0.7, 3.0),
                                ("xtc_threshold", 0.005, 0.2)):
            if rng.random() < 0.5:
                one[name] = float(np.float32(rng.uniform(low, high)))
        if rng.random() < 0.5:
            one["top_k"] = int(rng.integers(5, 200))
        sets.append(one)
    return sets


def hf_filters(params):
    processors = []
    if "temperature" in params:
        processors.append(hf.TemperatureLogitsWarper(params["temperature"]))
    if "min_p" in params:
        processors.append(hf.MinPLogitsWarper(params["min_p"]))
    if "top_k" in params:
        processors.append(hf.TopKLogitsWarper(params["top_k"]))
    if "typical_p" in params:
        processors.append(hf.TypicalLogitsWarper(params["typical_p"]))
    if "top_p" in params:
        processors.append(hf.TopPLogitsWarper(params["top_p"]))
    return processors


def run_hf(processors, input_ids, logits, dtype):
    scores = torch.tensor(logits[None], dtype=dtype)
    ids = torch.tensor([input_ids], dtype=torch.long)
    for processor in processors:
        scores = processor(ids, scores)
    return scores[0].numpy()


class TokenData(ctypes.Structure):
    _fields_ = [("id", ctypes.c_int32), ("logit", ctypes.c_float), ("p", ctypes.c_float)]


class TokenDataArray(ctypes.Structure):
    _fields_ = [("data", ctypes.POINTER(TokenData)), ("size", ctypes.c_size_t),
                ("selected", ctypes.c_int64), ("sorted", ctypes.c_bool)]


class Llama:
    """llama.cpp's samplers, by its C API."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        f, n, u = ctypes.c_float, ctypes.c_size_t, ctypes.c_uint32
        for name, types in (("temp", [f]), ("top_n_sigma", [f]), ("min_p", [f, n]),
                            ("top_k", [ctypes.c_int32]), ("typical", [f, n]), ("top_p", [f, n]),
                            ("xtc", [f, f, n, u]), ("penalties", [ctypes.c_int32, ctypes.c_int32, f, f, f])):
            function = getattr(self.lib, "llama_sampler_init_" + name)
            function.restype = ctypes.c_void_p
            function.argtypes = types
        self.lib.llama_sampler_apply.argtypes = [ctypes.c_void_p, ctypes.POINTER(TokenDataArray)]
        self.lib.llama_sampler_accept.argtypes = [ctypes.c_void_p, ctypes.c_int32]

    def init(self, name, *arguments):
        return getattr(self.lib, "llama_sampler_init_" + name)(*arguments)

    def filters(self, params):
        samplers = []
        if "temperature" in params:
            samplers.append(self.init("temp", params["temperature"]))
        if "top_n_sigma" in params:
            samplers.append(self.init("top_n_sigma", params["top_n_sigma"]))
        if "min_p" in params:
            samplers.append(self.init("min_p", params["min_p"], 1))
        if "top_k" in params:
            samplers.append(self.init("top_k", params["top_k"]))
        if "typical_p" in params:
            samplers.append(self.init("typical", params["typical_p"], 1))
        if "top_p" in params:
            samplers.append(self.init("top_p", params["top_p"], 1))
        if "xtc_threshold" in params:
            samplers.append(self.init("xtc", 1.0, params["xtc_threshold"], 1, 1))
        return samplers

    def run(self, samplers, logits):
        data = (TokenData * len(logits))()
        for i, logit in enumerate(logits):
            data[i] = TokenData(i, float(logit), 0.0)
        array = TokenDataArray(data, len(logits), -1, False)
        for sampler in samplers:
            self.lib.llama_sampler_apply(sampler, ctypes.byref(array))
            # top_n_sigma leaves what it excludes at -infinity, from which typical makes NaNs.
            left = [i for i in range(array.size) if array.data[i].logit != -np.inf]
            for to, i in enumerate(left):
                token = array.data[i]
                array.data[to] = TokenData(token.id, token.logit, token.p)
            array.size = len(left)
        scores = np.full(len(logits), -np.inf, dtype=np.float32)
        for i in range(array.size):
            scores[array.data[i].id] = array.data[i].logit
        return scores


def plain_kept(params, logits, nudge):
    """The filters of llama.cpp in fp64, thresholds moved by `nudge`: to find close decisions."""
    s = np.asarray(logits, dtype=np.float64) / params.get("temperature", 1.0)
    ids = np.argsort(-s, kind="stable")

    def p_of(ids):
        e = np.exp(s[ids] - s[ids].max())
        return e / e.sum()

    if "top_n_sigma" in params:
        ids = ids[s[ids] >= s.max() - params["top_n_sigma"] * s.std() * (1 + nudge)]
    if "min_p" in params:
        p = p_of(ids)
        ids = ids[p >= params["min_p"] * p.max() * (1 + nudge)]
    if "top_k" in params:
        ids = ids[: params["top_k"]]
    if "typical_p" in params:
        p = p_of(ids)
        distance = np.abs(-np.log(p) + (p * np.log(p)).sum())
        order = np.argsort(distance + nudge * (np.arange(len(ids)) % 2), kind="stable")
        mass = np.cumsum(p[order])
        count = int((mass < params["typical_p"] + nudge).sum()) + 1
        ids = ids[np.sort(order[:count])]
    if "top_p" in params:
        count = int((np.cumsum(p_of(ids)) < params["top_p"] + nudge).sum()) + 1
        ids = ids[:count]
    if "xtc_threshold" in params:
        count = int((p_of(ids) >= params["xtc_threshold"] * (1 + nudge)).sum())
        if count >= 2:
            ids = ids[count - 1:]
    kept = np.zeros(len(logits), dtype=bool)
    kept[ids] = True
    return kept


def hex_of(kept):
    return np.packbits(kept, bitorder="little").tobytes().hex()


def filter_cases(rows, rng, llama, arrays):
    cases, dropped = [], {"transformers": 0, "llama.cpp": 0}
    for name, logits in rows.items():
        for i, params in enumerate(parameter_sets(rng)):
            base = {"logits": name, **params}
            known_to_hf = "top_n_sigma" not in params and "xtc_threshold" not in params
            if known_to_hf:
                single = run_hf(hf_filters(params), [0], logits, torch.float32)
                double = run_hf(hf_filters(params), [0], logits, torch.float64)
                kept = np.isfinite(single)
                if np.array_equal(kept, np.isfinite(double)):
                    case = {"by": "transformers", **base, "kept": hex_of(kept)}
                    if name == "v512.0" and i % 3 == 0:
                        case["scores"] = f"scores.{len(cases)}"
                        arrays[case["scores"]] = single
                    cases.append(case)
                else:
                    dropped["transformers"] += 1
            if known_to_hf and len(params) == 1:
                continue  # llama.cpp is asked for what transformers lacks, and for mixtures
            kept = np.isfinite(llama.run(llama.filters(params), logits))
            if all(np.array_equal(plain_kept(params, logits, x), plain_kept(params, logits, 0))
                   for x in (1e-6, -1e-6)):
                cases.append({"by": "llama.cpp", **base, "kept": hex_of(kept)})
            else:
                dropped["llama.cpp"] += 1
    return cases, dropped


def edit_cases(rows, rng, llama, arrays):
    """Rules of a request, at some point of a completion: what is done to the next logits."""
    cases = []
    for number in range(40):
        logits = rows[f"v512.{number % 6}"]
        prompt = rng.integers(0, 512, 12).tolist()
        generated = rng.integers(0, 40, int(rng.integers(0, 30))).tolist()
        case = {"logits": f"v512.{number % 6}", "prompt": prompt, "generated": generated}
        processors = []
        if rng.random() < 0.5:
            ids = rng.choice(512, 10, replace=False).tolist()
            bias = [float(np.float32(x)) for x in rng.uniform(-10, 10, 10)]
            case["logit_bias"] = [[t, b] for t, b in zip(ids, bias)]
            processors.append(hf.SequenceBiasLogitsProcessor([[[t], b] for t, b in zip(ids, bias)]))
        if rng.random() < 0.4:
            allowed = sorted(rng.choice(512, 200, replace=False).tolist())
            case["allowed_token_ids"] = allowed
            processors.append(hf.PrefixConstrainedLogitsProcessor(lambda _, __, a=allowed: a, 1))
        if rng.random() < 0.6:
            words = [rng.integers(0, 40, int(n)).tolist() for n in rng.integers(1, 4, 6)]
            if len(generated) >= 2:  # one that would be completed now
                words.append(generated[-2:] + [int(rng.integers(0, 512))])
            words = [list(w) for w in sorted({tuple(w) for w in words})]
            case["bad_words"] = words
            processors.append(("completion", hf.NoBadWordsLogitsProcessor(words)))
        if rng.random() < 0.5:
            case["min_tokens"] = int(rng.integers(1, 30))
            case["stop_token_ids"] = rng.choice(512, 3, replace=False).tolist()
            processors.append(hf.MinNewTokensLengthLogitsProcessor(
                len(prompt), case["min_tokens"], case["stop_token_ids"]))
        if rng.random() < 0.6:
            case["repetition_penalty"] = float(np.float32(rng.uniform(0.6, 2)))
            processors.append(hf.RepetitionPenaltyLogitsProcessor(case["repetition_penalty"]))
        scores = logits
        for processor in processors:
            ids = prompt + generated
            if isinstance(processor, tuple):
                # transformers matches words across the prompt too; here only the completion counts.
                ids, processor = generated or [511], processor[1]
            scores = run_hf([processor], ids, scores, torch.float32)
        case["scores"] = f"edited.{number}"
        arrays[case["scores"]] = scores.astype(np.float32)
        cases.append({"by": "transformers", **case})
    for number in range(40, 52):
        # Penalties by llama.cpp: it counts what it is told, here the generated tokens.
        generated = rng.integers(0, 40, 40).tolist()
        penalties = [float(np.float32(x)) for x in (rng.uniform(0.7, 1.8), rng.uniform(-2, 2),
                                                    rng.uniform(-2, 2))]
        sampler = llama.init("penalties", 512, 64, *penalties)
        for token in generated:
            llama.lib.llama_sampler_accept(sampler, token)
        name = f"v512.{number % 6}"
        arrays[f"edited.{number}"] = llama.run([sampler], rows[name])
        cases.append({"by": "llama.cpp", "logits": name, "prompt": [generated[0]],
                      "generated": generated, "repetition_penalty": penalties[0],
                      "frequency_penalty": penalties[1], "presence_penalty": penalties[2],
                      "scores": f"edited.{number}"})
    return cases


def write_lines(path, cases):
    with open(path, "w", encoding="utf-8") as file:
        for case in cases:
            file.write(json.dumps(case, separators=(",", ":")) + "\n")


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(20261130)
    rows = make_logits(rng)
    llama = Llama(os.environ["LIBLLAMA"])
    arrays = dict(rows)
    filters, dropped = filter_cases(rows, rng, llama, arrays)
    edits = edit_cases(rows, rng, llama, arrays)
    write_lines(os.path.join(folder, "filters.jsonl"), filters)
    write_lines(os.path.join(folder, "edits.jsonl"), edits)
    save_file(arrays, os.path.join(folder, "arrays.safetensors"))
    for by in ("transformers", "llama.cpp"):
        print(by, "filters", sum(c["by"] == by for c in filters), "dropped", dropped[by],
              "edits", sum(c["by"] == by for c in edits))


if __name__ == "__main__":
    main()

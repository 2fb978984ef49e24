"""Makes models/smollm3 and models/qwen2_mixed_window: tiny random models and their fp32 logits.

    pip install transformers==5.24.0 torch==2.15.0 safetensors==0.8.0 numpy
    python3 make_models.py FOLDER      # writes FOLDER/NAME/..., prints the rows for models.jsonl

The recipe is that of the other models: weights by a seed, drawn so that every part matters
(attention entropy about 2 nats, norms around 1), rounded to bf16; logits by eager attention in fp32.
"""
import json
import math
import os
import random
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

VOCAB = 512
BASE = {
    "vocab_size": VOCAB, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512, "tie_word_embeddings": False, "bos_token_id": 1,
    "eos_token_id": 2, "initializer_range": 0.02, "use_cache": True, "torch_dtype": "bfloat16",
    "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 128, "rope_scaling": None,
}
# name -> (config, seed)
MODELS = {
    "smollm3": (BASE | {
        "architectures": ["SmolLM3ForCausalLM"], "model_type": "smollm3",
        "attention_bias": False, "mlp_bias": False, "pretraining_tp": 1, "rope_theta": 2000000.0,
        "tie_word_embeddings": True, "pad_token_id": 0, "no_rope_layers": [1, 1, 0, 1],
        "no_rope_layer_interval": 3, "use_sliding_window": False, "sliding_window": None}, 201),
    "qwen2_mixed_window": (BASE | {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "rope_theta": 1000000.0,
        "use_sliding_window": True, "sliding_window": 24, "max_window_layers": 2,
        "layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 2}, 202),
}
LOGIT_STD = 3.0
QK_GAIN = 1.8


def init(model, seed):
    """Weights that make every part of the model matter, rounded to bf16."""
    gen = torch.Generator().manual_seed(seed)
    tied = model.config.tie_word_embeddings
    hidden = model.config.hidden_size
    for name, p in model.named_parameters():
        noise = torch.randn(p.shape, generator=gen)
        if p.ndim == 1 and name.endswith("bias"):
            value = 0.2 * noise
        elif p.ndim == 1:
            value = 1.0 + 0.2 * noise
        elif "embed" in name:
            value = noise * (LOGIT_STD / math.sqrt(hidden) if tied else 1.0)
        elif "lm_head" in name:
            value = noise * LOGIT_STD / math.sqrt(hidden)
        else:
            gain = QK_GAIN if "q_proj" in name or "k_proj" in name else 0.8
            if tied and ("o_proj" in name or "down_proj" in name):
                gain = 1.6  # else the embedding dominates and the model repeats its input
            value = noise * gain / math.sqrt(p.shape[-1])
        p.data = value.to(torch.bfloat16).to(torch.float32)
    model.tie_weights()


def first_below(gaps, limit):
    return next((k for k, gap in enumerate(gaps) if gap < limit), len(gaps))


@torch.no_grad()
def greedy(model, prompt, steps, stop_below=-1.0):
    """Tokens, and top1 - top2 at each step. All is recomputed every time: no cache is involved."""
    ids, tokens, gaps = list(prompt), [], []
    for _ in range(steps):
        row = model(torch.tensor([ids]), use_cache=False).logits[0, -1].float()
        top = torch.topk(row, 2)
        gap = float(top.values[0] - top.values[1])
        if gap < stop_below:
            break
        tokens.append(int(top.indices[0]))
        gaps.append(round(gap, 5))
        ids.append(tokens[-1])
    return tokens, gaps


def greedy_rows(model, seed, std, steps=40, tries=5):
    """A prompt of each length: of `tries`, the one with most distinct tokens before a small gap."""
    rng, rows = random.Random(seed + 1), []
    for length in (1, 3, 8, 13, 21, 34, 55, 70):
        best = (-1, [])
        for _ in range(tries):
            prompt = [rng.randrange(3, VOCAB) for _ in range(length)]
            best = max(best, (len(set(greedy(model, prompt, steps, 0.05 * std)[0])), prompt))
        tokens, gaps = greedy(model, best[1], steps)
        rows.append({"prompt": best[1], "tokens": tokens, "gaps": gaps,
                     "compare": first_below(gaps, 0.05 * std), "logit_std": round(std, 4)})
    return rows


@torch.no_grad()
def bf16_numbers(model, data, std):
    """How far bf16 activations alone move the logits."""
    for p in model.parameters():  # not model.to(), which would round the rotary frequencies too
        p.data = p.data.to(torch.bfloat16)
    squares, worst, same, count = 0.0, 0.0, 0, 0
    for i in range(3):
        want = data[f"logits.{i}"]
        got = model(data[f"prompt.{i}"].long()[None], use_cache=False).logits[0].float()
        squares += float((got - want).square().sum())
        worst = max(worst, float((got - want).abs().max()))
        same += int((got.argmax(-1) == want.argmax(-1)).sum())
        count += want.numel()
    return {"bf16_rms_over_std": round(math.sqrt(squares / count) / std, 4),
            "bf16_max_over_std": round(worst / std, 4),
            "bf16_argmax_agreement": round(same / 281, 4)}


def write_config(path, config):
    with open(os.path.join(path, "config.json"), "w", encoding="utf-8") as file:
        file.write(json.dumps(config, indent=2, separators=(",", ": ")) + "\n")


@torch.no_grad()
def make(path, name, config, seed):
    os.makedirs(path, exist_ok=True)
    write_config(path, config)
    kind = {"attn_implementation": "eager", "dtype": torch.float32}
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(path), **kind)
    init(model, seed)
    model.to(torch.bfloat16)
    model.save_pretrained(path)
    os.remove(os.path.join(path, "generation_config.json"))
    write_config(path, config)  # as older files have it
    model = AutoModelForCausalLM.from_pretrained(path, **kind).eval()
    rng, data, entropy = random.Random(seed), {}, []
    for i, length in enumerate((17, 64, 200)):
        ids = [rng.randrange(3, VOCAB) for _ in range(length)]
        out = model(torch.tensor([ids]), use_cache=False, output_attentions=True,
                    output_hidden_states=True)
        data[f"prompt.{i}"] = torch.tensor(ids, dtype=torch.int32)
        data[f"logits.{i}"] = out.logits[0].float().contiguous()
        if i == 0:
            data["hidden.0"] = torch.stack([h[0].float() for h in out.hidden_states]).contiguous()
    for a in out.attentions:
        a = a[0, :, 100:, :].clamp_min(1e-30)
        entropy.append(round(float(-(a * a.log()).sum(-1).mean()), 2))
    std = float(out.logits.std())
    save_file(data, os.path.join(path, "golden.safetensors"))
    rows = greedy_rows(model, seed, std)
    with open(os.path.join(path, "greedy.jsonl"), "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    return {"name": name, "family": config["model_type"],
            "parameters": sum(p.numel() for p in model.parameters()), "logit_std": round(std, 3),
            "attention_entropy": entropy, "uniform_entropy": round(math.log(150), 2),
            "greedy_tokens_to_compare": sum(row["compare"] for row in rows),
            **bf16_numbers(model, data, std)}


if __name__ == "__main__":
    for model_name, (model_config, model_seed) in MODELS.items():
        row = make(os.path.join(sys.argv[1], model_name), model_name, model_config, model_seed)
        print(json.dumps(row, separators=(",", ":")))

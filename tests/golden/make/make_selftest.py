"""The prompt and the tokens of `quire doctor`'s self-test, by a forward pass in float64.

    pip install numpy
    python3 make_selftest.py      # takes minutes, prints what server/cli/doctor/self_test.cc has

The model is that of server/cli/doctor/self_test_model.h: the formula of its weights is the only
thing the two share. The forward is Llama's, rotary pairs (2i, 2i + 1) as GGUF has them, without a
cache. Of many prompts the one is taken whose choices are clearest at every step; how clear, and how
far activations in bf16 move the logits, is printed in units of the logits' standard deviation.
"""
import numpy as np

VOCAB, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, MLP, LAYERS = 64, 64, 4, 2, 16, 128, 2
THETA, EPS, SEED = 10000.0, 1e-5, 1
PROMPT_TOKENS, NEW_TOKENS, CANDIDATES, MIN_GAP, MIN_DISTINCT = 20, 16, 60000, 0.1, 10


def mix(x):
    """uint64 arrays that hold 32 bits."""
    x = x ^ x >> np.uint64(16)
    x = x * np.uint64(0x7feb352d) & np.uint64(0xffffffff)
    x = x ^ x >> np.uint64(15)
    x = x * np.uint64(0x846ca68b) & np.uint64(0xffffffff)
    return x ^ x >> np.uint64(16)


def values(tensor, count):
    """The formula: k / 128 for whole k from -128 to 127."""
    start = mix(np.uint64(SEED * 64 + tensor))
    element = start + np.arange(count, dtype=np.uint64) & np.uint64(0xffffffff)
    return (mix(element) >> np.uint64(24)).astype(np.uint8).view(np.int8).astype(np.float64) / 128


def matrix(tensor, rows, cols, scale=0.25):
    return values(tensor, rows * cols).reshape(rows, cols) * scale


def norm_weight(tensor):
    return 1 + values(tensor, HIDDEN) / 2


EMBEDDING, HEAD, FINAL_NORM = matrix(0, VOCAB, HIDDEN, 1.0), matrix(1, VOCAB, HIDDEN), norm_weight(2)
WEIGHTS = [{
    "attn_norm": norm_weight(t), "q": matrix(t + 1, HEADS * HEAD_DIM, HIDDEN),
    "k": matrix(t + 2, KV_HEADS * HEAD_DIM, HIDDEN),
    "v": matrix(t + 3, KV_HEADS * HEAD_DIM, HIDDEN),
    "out": matrix(t + 4, HIDDEN, HEADS * HEAD_DIM), "ffn_norm": norm_weight(t + 5),
    "gate": matrix(t + 6, MLP, HIDDEN), "up": matrix(t + 7, MLP, HIDDEN),
    "down": matrix(t + 8, HIDDEN, MLP)} for t in (3, 12)]


def bf16(x):
    """Nearest, ties to even."""
    bits = np.float32(x).view(np.uint32)
    rounded = bits + np.uint32(0x7fff) + (bits >> np.uint32(16) & np.uint32(1))
    return (rounded & np.uint32(0xffff0000)).view(np.float32).astype(np.float64)


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rotate(x):
    """[prompts, tokens, heads, head_dim]"""
    angle = np.outer(np.arange(x.shape[1]), THETA ** (-np.arange(0, HEAD_DIM, 2) / HEAD_DIM))
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return np.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)


def logits(ids, rounded=lambda x: x):
    """[prompts, tokens] -> [prompts, vocabulary], after the last token."""
    x = EMBEDDING[ids]
    num_prompts, num_tokens = ids.shape
    hidden = np.triu(np.full((num_tokens, num_tokens), -np.inf), 1)
    for w in WEIGHTS:
        h = rounded(rms_norm(x, w["attn_norm"]))
        heads = (num_prompts, num_tokens, -1, HEAD_DIM)
        q = rounded(rotate((h @ w["q"].T).reshape(heads)))
        k = rounded(rotate((h @ w["k"].T).reshape(heads))).repeat(HEADS // KV_HEADS, 2)
        v = rounded(h @ w["v"].T).reshape(heads).repeat(HEADS // KV_HEADS, 2)
        score = np.einsum("pthd,pshd->phts", q, k) / np.sqrt(HEAD_DIM) + hidden
        p = np.exp(score - score.max(-1, keepdims=True))
        seen = np.einsum("phts,pshd->pthd", rounded(p), v)
        seen /= np.moveaxis(p.sum(-1), 1, 2)[..., None]
        x = x + rounded(seen.reshape(num_prompts, num_tokens, -1)) @ w["out"].T
        h = rounded(rms_norm(x, w["ffn_norm"]))
        gate = h @ w["gate"].T
        x = x + rounded(gate / (1 + np.exp(-gate)) * (h @ w["up"].T)) @ w["down"].T
    return rounded(rms_norm(x[:, -1], FINAL_NORM)) @ HEAD.T


def continue_clearly(ids):
    """Appends greedy tokens; keeps the prompts whose choices are all clear. Also: least gaps."""
    least = np.full(len(ids), np.inf)
    for _ in range(NEW_TOKENS):
        if len(ids) == 0:
            break
        row = logits(ids)
        top = np.sort(row, -1)[:, -2:]
        least = np.minimum(least, (top[:, 1] - top[:, 0]) / row.std(-1))
        clear = least >= MIN_GAP
        ids = np.concatenate([ids, row.argmax(-1)[:, None]], 1)[clear]
        least = least[clear]
    return ids, least


def main():
    prompts = np.random.RandomState(1).randint(0, VOCAB, (CANDIDATES, PROMPT_TOKENS))
    best, best_gap = None, 0.0
    for part in np.array_split(prompts, CANDIDATES // 1000):
        for ids, gap in zip(*continue_clearly(part)):
            if gap > best_gap and len(set(ids[PROMPT_TOKENS:])) >= MIN_DISTINCT:
                best, best_gap = ids, gap
    worst = 0.0
    for end in range(PROMPT_TOKENS, PROMPT_TOKENS + NEW_TOKENS):
        row = logits(best[None, :end])
        worst = max(worst, np.abs(logits(best[None, :end], bf16) - row).max() / row.std())
    print("prompt  ", ", ".join(map(str, best[:PROMPT_TOKENS])))
    print("expected", ", ".join(map(str, best[PROMPT_TOKENS:])))
    print(f"least gap {best_gap:.3f}, bf16 moves a logit by at most {worst:.3f} (of their deviation)")


if __name__ == "__main__":
    main()

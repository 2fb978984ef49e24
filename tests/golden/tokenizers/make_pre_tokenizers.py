#!/usr/bin/env python3
"""Makes pre_tokenizers/: one vocabulary, and what each way of splitting text makes of texts with it.

Truth is the library `tokenizers` with the pre_tokenizer that the models' tokenizer.json have, written
here as they have it. The vocabulary is trained without any split, so its tokens cross the borders
of words: wherever two splits differ, the ids do. Run it with tokenizers 0.23.3 and gguf 0.19.0.
"""
import json
import pathlib

import gguf
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

OUT = pathlib.Path(__file__).parent / "pre_tokenizers"

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*" + SPACES
LLAMA3 = QWEN2.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def cased(suffix, digits, stops, upper=UPPER, lower=LOWER):
    first = r"[^\r\n\p{L}\p{N}]?"
    return (f"{first}{upper}*{lower}+{suffix}|{first}{upper}+{lower}*{suffix}|{digits}"
            r"| ?[^\s\p{L}\p{N}]+" + stops + SPACES)


O200K = cased(CONTRACTIONS + "?", r"\p{N}{1,3}", r"[\r\n/]*")
KIMI = r"[\p{Han}]+|" + cased(CONTRACTIONS + "?", r"\p{N}{1,3}", r"[\r\n]*",
                              UPPER[:-1] + r"&&[^\p{Han}]]", LOWER[:-1] + r"&&[^\p{Han}]]")
ASCII_MARKS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
DEEPSEEK3 = ASCII_MARKS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + SPACES
SPARK = ASCII_MARKS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"
CJK_KANA, DEEPSEEK_CJK = "[一-龥぀-ゟ゠-ヿ]+", "[一-龥ࠀ-一가-퟿]+"
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚ"
    "Ḁ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\u1f5f-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄ"
    "Ⰰ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+")
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"
JAIS2 = (CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
         + "".join(r"|\s{%d}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4)) + r"|\s{1,2}(?!\S)|\s{1}")
AFMOE_SCRIPTS = "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

P = pre_tokenizers
gpt2 = P.ByteLevel(add_prefix_space=False, use_regex=True)
digit, digit_runs = P.Digits(individual_digits=True), P.Digits(individual_digits=False)


def split(*patterns):
    parts = [P.Split(Regex(p), "isolated") if isinstance(p, str) else p for p in patterns]
    return P.Sequence(parts + [P.ByteLevel(add_prefix_space=False, use_regex=False)])


# Names of one line are one rule: pre_tokenizer, and whether ignore_merges, NFC.
RULES = [
    ("gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum exaone4 jais trillion "
     "granite-docling jina-v1-en jina-v2-code roberta-bpe", gpt2, False, False),
    ("default", split(r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"), False, False),
    ("mpt olmo modern-bert", gpt2, False, True),
    ("smollm starcoder refact codeshell exaone minerva-7b mellum2", P.Sequence([digit, gpt2]), False, False),
    ("command-r", P.Sequence([digit, gpt2]), False, True),
    ("llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano", split(LLAMA3), True, False),
    ("glm4 glm5", split(LLAMA3), True, False),
    ("k2-horizon", split(LLAMA3.replace(r"\p{L}+", r"(?:\p{L}|\p{M}|\u200C|\u200D)+")), False, False),
    ("dbrx smaug-bpe chatglm-bpe", split(LLAMA3), False, False),
    ("jais-2", split(JAIS2), False, False),
    ("qwen2 deepseek-r1-qwen kormo f2llmv2 megrez", split(QWEN2), False, True),
    ("stablelm2 hunyuan solar-open grok-2", split(QWEN2), False, False),
    ("qwen35", split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*" + SPACES), False, True),
    ("ufakzeka", split(QWEN2.replace(CONTRACTIONS + "|", "")), False, False),
    ("seed-coder", split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + SPACES), False, False),
    ("bailingmoe bailingmoe2 llada-moe",
     split(r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"), False, False),
    ("exaone-moe", split(CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
                         r"|\s*[\r\n]|\s+(?!\S)|\s+"), False, False),
    ("minicpm5", split(r"\p{N}{1,3}", QWEN2.replace(r"\p{N}|", r"\p{N}+|", 1)), True, False),
    ("laguna", split(r"[^\n]+|[\n]+", QWEN2), False, False),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", split(O200K), False, False),
    ("granite-embed-multi-97m", split(O200K), True, False),
    ("tekken", split(cased("", r"\p{N}", r"[\r\n/]*")), True, False),
    ("youtu", split("[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
                    cased(CONTRACTIONS + "?", r"\p{N}", r"[\r\n/]*")), True, False),
    ("tiny_aya cohere2moe", split(r"\d{1,3}(?=(?:\d{3})*\b)", O200K), False, False),
    ("kimi-k2", split(KIMI), False, False),
    ("deepseek-llm", split(r"[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", DEEPSEEK_CJK, digit_runs), False, False),
    ("deepseek-coder", split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, digit), False, False),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", split(r"\p{N}{1,3}", CJK_KANA, DEEPSEEK3), False, False),
    ("spark2_5", split(r"\p{N}{1,3}", CJK_KANA, SPARK, r"\p{N}"), False, False),
    ("afmoe", split(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", AFMOE_SCRIPTS, DEEPSEEK3), False, False),
    ("superbpe", split(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), False, False),
    ("bloom gpt3-finnish poro-chat", split(BLOOM), False, False),
    ("viking", split(BLOOM, digit), False, False),
    ("falcon", P.Sequence([P.Punctuation("contiguous"), gpt2, digit_runs, P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), False, False),
    ("chameleon", P.Sequence([P.Split(Regex(r), "isolated") for r in
                              ("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )")]
                             + [digit, P.Punctuation("isolated"), gpt2]), False, False),
]

TEXTS = [
    "Hello, world! It's 3 o'clock; WE'LL see, I'Ve 'told 'RE 'Tis y'all'd've o’clock's",
    "1 12 123 1234 12345 123456 1234567 12345678 1,234,567.89 v1.2.3 a1b22c333d4444 12½34 x²³¹ ½¼¾ ²12 12²345",
    "1234a 12345_ 1234é 1234\u0301 ١٢٣٤ ٣٤٥ १२३४५ ⅣⅤ ①②③④ 1234\u200d5678",
    "  two leading, three   inside, trailing   ",
    "    \n\n  \t \n x\n\n\n\ty \r\n\r\n z\r\r  \n", "a  b   c    d     e" + " " * 9 + "f" + " " * 17 + "g" + " " * 70 + "h",
    "\u00a0nbsp\u00a0 \u3000ideographic\u3000\u3000 \u2003em\u2028line\u2029para\u0085next\x0b\x0cff\ufeffbom\u200bzwsp",
    "!!! ??? ... ---- ====> <= >= != == && || ++ -- ** // /* */ $x = @y #z ~`^ %5 \\n (a)[b]{c} «q» „r“ ‘s’ “t” —–-",
    "if(x>=10){return \"a/b\";}//c\n/path/to/file.txt\nhttps://example.com/?q=1&r=2#frag\n",
    "ÀÉÎ éàü ñ ß ﬁﬂ Å Å K Ω Ǆǅǆ ʼn İı ÅNGSTRÖM naïveCamelCase HTMLParser XMLHttpRequest iPhone McDonald O'NEIL",
    "e\u0301 a\u0308 o\u0302\u0301 n\u0303 A\u030a u\u0308ber \u0301lone x\u0301\u0301\u0301 क्षेत्र हिन्दी தமிழ் ไทยภาษา ភាសាខ្មែរ မြန်မာ ລາວ",
    "我想在apple工作1314151天～ 你好，世界！「引用」。日本語のテキスト、カタカナ・ひらがな！한국어 텍스트ㅋㅋㅋ ㄅㄆㄇ 繁體中文 𠀀𠀁 々〆ヶ",
    "नमस्ते दुनिया। یہ اردو ہے۔ مرحبا، كيف الحال؟ שלום עולם Привет, мир! Ёлка ΑΒΓ αβγ ὈΔΎ Ἀθῆναι ქართული ᲥᲐᲠ Հայերեն ꭰꭱ ᏣᎳᎩ 𐐀𐐨 ﬓ ＡＢｃ",
    "🚀 (normal) 😶‍🌫️ ✅ 🦙🦙 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 3️⃣ ☎️ ♥ ™ © € £5 ¥100 ₿ √2 ≈ ∑ → ⇒ ■□",
    "<sentinel:12> IMGIMGABCZ IMGIMGABCDEZ <|im_start|> </s> [INST] <unk> {{x}} __init__ snake_case kebab-case",
    "def f(a, b):\n    return a + b  # sum\n\n\nclass A(B):\n\tx: int = 0xFF\n\tpi = 3.14159_26\n",
    "ABC def Ghi JKLmno pQR's aB'LL CD'S éÉ'd 漢字's 123's _a _1 -x -1 +1 =a .b ,c  'd",
    "a b c d e f, a\u0301 b\u0301 c xY zW  two  spaces é è  ê/ / //x ?/y !\n/z",
    "tab\ttab\t\ttab \t mixed\t \ttail\t", "x\x00y \x01\x7f z", "one\rtwo\r\nthree\n\rfour", "\n", " ", "  ", "a", "'s", "''s", "\ufffd", "\U0010ffff x",
    "''''''```````\"\"\"\"......!!!!!!?????? I've been 'told he's there, 'RE you sure? 'M not sure I'll make it, 'D you like some tea? We'Ve a'lL",
    "Čeština Žluťoučký kůň Türkçe'de İstanbul'a Việt Nam tiếng Việt ở đây Łódź Ősz Ünnep",
    "end with newline\n\n", "end with spaces   ", "\n   start", "1 2 3\n4 5 6\n", "999999999999999999999999 000 0000 00000",
    "ΐ \u1fd3 ώ \u1f7d \u1fdb \u1fbe \u2126 \u212a ǰ ẛ̣ ͅ ʹ ʻ ˈ ªº ⁿ ₁ ⅓",
]
# The texts of another golden, as far as they are short.
with open(OUT.parent / "own_bpe_digits" / "cases.jsonl", encoding="utf-8") as other:
    for line in other.read().split("\n"):
        if line and (text := json.loads(line)["text"]) not in TEXTS and 0 < len(text) <= 100:
            TEXTS.append(text)
TRAIN = [t for t in TEXTS for _ in range(3)] + [t[i:i + 40] for t in TEXTS for i in range(0, len(t), 13)]


def main():
    OUT.mkdir(exist_ok=True)
    base = Tokenizer(models.BPE())
    base.pre_tokenizer = P.ByteLevel(add_prefix_space=False, use_regex=False)
    base.train_from_iterator(TRAIN, trainers.BpeTrainer(
        vocab_size=1600, initial_alphabet=P.ByteLevel.alphabet(), special_tokens=["<|begin|>", "<|end|>"],
        show_progress=False, max_token_length=24))
    model = json.loads(base.to_str())["model"]
    vocab = model["vocab"]
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    # Two words that no merge makes: ignore_merges shows.
    for word in ("ĠzW", "Ġdef"):
        vocab.setdefault(word, len(vocab))
    tokens = sorted(vocab, key=vocab.get)
    special = {"<|begin|>", "<|end|>"}
    writer = gguf.GGUFWriter(OUT / "vocab.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t in special else 1 for t in tokens])
    writer.add_token_merges([" ".join(m) for m in merges])
    writer.add_bos_token_id(vocab["<|begin|>"])
    writer.add_eos_token_id(vocab["<|end|>"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    results = [{} for _ in TEXTS]
    for names, pre, ignore_merges, nfc in RULES:
        tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=ignore_merges))
        tok.normalizer = normalizers.NFC() if nfc else None
        tok.pre_tokenizer = pre
        tok.decoder = decoders.ByteLevel()
        tok.add_special_tokens([AddedToken(t, normalized=False, special=True) for t in sorted(special)])
        tok = Tokenizer.from_str(tok.to_str())  # as it is read from a tokenizer.json
        for text, result in zip(TEXTS, results):
            ids = tuple(tok.encode(text, add_special_tokens=False).ids)
            result.setdefault(ids, []).append(names)
    with open(OUT / "cases.jsonl", "w", encoding="utf-8") as file:
        for text, result in zip(TEXTS, results):
            row = {"text": text, "results": [{"pre": " ".join(n), "ids": list(i)} for i, n in result.items()]}
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

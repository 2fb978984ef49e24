#!/usr/bin/env python3
"""Makes unigram_*/: unigram vocabularies in GGUF (`t5`), and what SentencePiece makes of texts with them.

Trained on the texts of pre_tokenizers/cases.jsonl. Run it with sentencepiece 0.2.3 and gguf 0.19.0.
"""
import io
import json
import pathlib
import tempfile
import unicodedata

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2

HERE = pathlib.Path(__file__).parent
with open(HERE / "pre_tokenizers" / "cases.jsonl", encoding="utf-8") as cases:
    TEXTS = [json.loads(line)["text"] for line in cases.read().split("\n") if line]
EXTRA = ["", "    ", "a  b", "  a", "a  ", "<ctrl>", "x<ctrl>y", "<sep>", "a<sep>b", "a <sep> b", "<sep><sep>", "<sep2>", "\u2581a\u2581", "\u2581",
         "\u3000 a\u3000\u3000b\u3000", "ﬁﬂ ①② Ａ１ ㍿ ½", "e\u0301e\u0301", "\u0041\u030a", "\u1100\u1161\u11a8", "\u200b", "\u200bx", "a\u200b b", "\x01", "\x01 x",
         "unseen: ჴჵჶ 𓀀𓁀 zzqqxx", "𓀀", "a𓀀𓀀b", "<0x41>", "<unk>", "</s>", "<pad>"]
SETTINGS = {
    # As T5 and its kin.
    "unigram_nfkc": dict(vocab_size=900, byte_fallback=False),
    # As written, every space kept, bytes for what is unknown.
    "unigram_bytes": dict(normalization_rule_name="identity", vocab_size=1100, byte_fallback=True,
                          remove_extra_whitespaces=False, add_dummy_prefix=False),
}
KINDS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6}  # SentencePiece's numbers are GGUF's


def write_rules(path):
    """What NFKC makes of letters and signs, composed letters too; other spaces are spaces, control characters nothing."""
    rules = {}
    for code in [*range(0xA0, 0x250), *range(0x1E00, 0x2500), *range(0x3000, 0x3400), *range(0xFB00, 0xFB07), *range(0xFF01, 0xFFE0)]:
        c = chr(code)
        if (to := unicodedata.normalize("NFKC", c)) != c:
            rules[c] = to
        parts = unicodedata.normalize("NFD", c)
        if len(parts) > 1 and unicodedata.normalize("NFKC", parts) != parts:
            rules[parts] = unicodedata.normalize("NFKC", parts)
    rules |= {chr(c): " " for c in (9, 10, 13, 0xA0, 0x1680, 0x200B, 0x2028, 0x2029, 0x3000, 0xFEFF, *range(0x2000, 0x200B))}
    rules |= {chr(c): "" for c in (*range(1, 9), *range(14, 32), 0x7F)}
    hexes = lambda text: " ".join(f"{ord(c):X}" for c in text)  # noqa: E731
    path.write_text("".join(f"{hexes(a)}\t{hexes(b)}\n" for a, b in sorted(rules.items())), encoding="ascii")


def main():
    rules = pathlib.Path(tempfile.mkdtemp()) / "rules.tsv"
    write_rules(rules)
    SETTINGS["unigram_nfkc"]["normalization_rule_tsv"] = str(rules)
    lines = [line for text in TEXTS * 3 for line in text.split("\n") if line.strip()]
    for name, settings in SETTINGS.items():
        out = HERE / name
        out.mkdir(exist_ok=True)
        blob = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines), model_writer=blob, model_type="unigram", character_coverage=0.98, hard_vocab_limit=False,
            user_defined_symbols=["<sep>", "<sep2>"], control_symbols=["<ctrl>"], pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
            minloglevel=2, num_threads=1, **settings)
        proto = sentencepiece_model_pb2.ModelProto.FromString(blob.getvalue())
        writer = gguf.GGUFWriter(out / "vocab.gguf", "t5")
        writer.add_tokenizer_model("t5")
        writer.add_token_list([p.piece for p in proto.pieces])
        writer.add_token_scores([p.score for p in proto.pieces])
        writer.add_token_types([KINDS[p.type] for p in proto.pieces])
        writer.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
        writer.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
        if proto.normalizer_spec.precompiled_charsmap:
            writer.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        model = sentencepiece.SentencePieceProcessor(model_proto=blob.getvalue())
        with open(out / "cases.jsonl", "w", encoding="utf-8") as file:
            for text in TEXTS + EXTRA:
                ids = model.encode(text)
                row = {"text": text, "ids": ids}
                if model.unk_id() not in ids:
                    row["decoded"] = model.decode(ids)
                file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

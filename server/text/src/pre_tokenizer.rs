//! How a byte-level vocabulary in a GGUF file splits text into words.
//!
//! The file says it by one word ("smollm"). What the word means is a fact of the model that the
//! word was coined for: the `pre_tokenizer` of its tokenizer.json. `RULES` has those facts. Where
//! llama.cpp writes a pattern in another way because of its engine, the model's own is here.

use tokenizers::pre_tokenizers::{
    byte_level::ByteLevel, digits::Digits, punctuation::Punctuation, sequence::Sequence,
    split::Split, split::SplitPattern,
};
use tokenizers::{PreTokenizerWrapper, SplitDelimiterBehavior};

use crate::error::{Error, Result};

pub struct Rule {
    /// Separated by spaces.
    names: &'static str,
    steps: &'static [Step],
    /// A word that is a token is that token, whatever the merges make of it.
    pub ignore_merges: bool,
    /// Text is brought into Unicode's composed form first.
    pub nfc: bool,
    /// BOS is added where the file does not say whether.
    pub add_bos: bool,
}

/// One cut of all pieces that the steps before it left. The matches of a pattern are pieces of
/// their own.
enum Step {
    Match(&'static str),
    Digit,
    /// Runs of digits and runs of other characters.
    DigitRuns,
    PunctuationMark,
    PunctuationRuns,
    /// GPT-2's pattern, then bytes. What comes after sees bytes written as characters.
    Gpt2,
    /// Bytes, without a further cut.
    Bytes,
}

use Step::{Bytes, Digit, DigitRuns, Gpt2, Match, PunctuationMark, PunctuationRuns};

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const K2_HORIZON: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}\x{200C}\x{200D}]+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
/// The lookbehind is ours: a run of spaces without an end of line is searched for one only once.
/// Whatever ends in such a space was cut out of a run that has none.
const JAIS2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|(?<![^\S\r\n])\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}";
const O200K: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const YOUTU_SCRIPTS: &str = r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+";
const YOUTU: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
const SPARK: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##;
const CJK_KANA: &str = r"[一-龥぀-ゟ゠-ヿ]+";
/// Letters with case, as DeepSeek LLM lists them.
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+";
const DEEPSEEK_MARKS: &str =
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+";
const DEEPSEEK_CJK: &str = r"[\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+";
/// The lookbehind is ours: spaces that do not end the piece are searched for its end only once.
const TRAILING_SPACES: &str = r"(?<!\s)\s+$";
const BLOOM: &str = r" ?[^(\s|[.,!?…。，、।۔،])]+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const UFAKZEKA: &str =
    r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
const MINICPM5: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const KIMI: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const AFMOE_SCRIPTS: &str = r"[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+";
/// Threes from the right, in pieces that are nothing but one number: the first match is what is
/// over, so each character is looked at a few times only.
const THREES: &str = r"\A\p{N}{1,2}(?=(?:\p{N}{3})+\z)|\p{N}{3}";
/// `\d{1,3}(?=(?:\d{3})*\b)`, which is this in time that grows with the square: once a number's
/// first group has been found, threes follow.
const AYA_THREES: &str = r"(?<!\d)\d{1,3}(?=(?:\d{3})*\b)|\G(?<=\d)\d{3}";
/// The cuts of `(?=(\d{3})+(?!\d))`, in time that grows with the text.
const SUPERBPE_THREES: &str = r"(?<!\d)\d{0,2}\K(?=(?:\d{3})+(?!\d))\d{3}|\G(?<=\d)\d{3}";

const PLAIN: Rule =
    Rule { names: "", steps: &[], ignore_merges: false, nfc: false, add_bos: false };

const RULES: &[Rule] = &[
    Rule {
        names: "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de gigachat a.x-4.0 mellum exaone4 jais trillion granite-docling jina-v1-en jina-v2-code roberta-bpe",
        steps: &[Gpt2],
        ..PLAIN
    },
    // Of no model: what llama.cpp does with files that do not say, on which some have come to rely.
    Rule {
        names: "default",
        steps: &[
            Match(r"[\p{P}\$\+<=>\^~\|]+"),
            Match(GPT2),
            Match(r"\p{N}+"),
            Match("[0-9][0-9][0-9]"),
            Bytes,
        ],
        ..PLAIN
    },
    // Those of GPT-NeoX and its descendants.
    Rule { names: "mpt olmo modern-bert", steps: &[Gpt2], nfc: true, ..PLAIN },
    Rule {
        names: "smollm starcoder refact codeshell exaone minerva-7b mellum2",
        steps: &[Digit, Gpt2],
        ..PLAIN
    },
    Rule { names: "command-r", steps: &[Digit, Gpt2], nfc: true, ..PLAIN },
    Rule {
        names: "llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        steps: &[Match(LLAMA3), Bytes],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Rule { names: "glm4 glm5", steps: &[Match(LLAMA3), Bytes], ignore_merges: true, ..PLAIN },
    Rule { names: "k2-horizon", steps: &[Match(K2_HORIZON), Bytes], ..PLAIN },
    Rule {
        names: "dbrx smaug-bpe chatglm-bpe",
        steps: &[Match(LLAMA3), Bytes],
        ..PLAIN
    },
    Rule { names: "jais-2", steps: &[Match(JAIS2), Bytes], ..PLAIN },
    Rule {
        names: "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez",
        steps: &[Match(QWEN2), Bytes],
        nfc: true,
        ..PLAIN
    },
    Rule {
        names: "stablelm2 hunyuan solar-open grok-2",
        steps: &[Match(QWEN2), Bytes],
        ..PLAIN
    },
    Rule { names: "qwen35", steps: &[Match(QWEN35), Bytes], nfc: true, ..PLAIN },
    Rule { names: "ufakzeka", steps: &[Match(UFAKZEKA), Bytes], ..PLAIN },
    Rule { names: "seed-coder", steps: &[Match(SEED_CODER), Bytes], ..PLAIN },
    Rule {
        names: "bailingmoe bailingmoe2 llada-moe",
        steps: &[Match(BAILING), Bytes],
        ..PLAIN
    },
    Rule { names: "exaone-moe", steps: &[Match(EXAONE_MOE), Bytes], ..PLAIN },
    Rule {
        names: "minicpm5",
        steps: &[Match(r"\p{N}{1,3}"), Match(MINICPM5), Bytes],
        ignore_merges: true,
        ..PLAIN
    },
    Rule { names: "laguna", steps: &[Match(r"[^\n]+|\n+"), Match(QWEN2), Bytes], ..PLAIN },
    Rule {
        names: "gpt-4o llama4 kanana2 talkie minimax-m2",
        steps: &[Match(O200K), Bytes],
        ..PLAIN
    },
    Rule {
        names: "granite-embed-multi-97m",
        steps: &[Match(O200K), Bytes],
        ignore_merges: true,
        ..PLAIN
    },
    Rule {
        names: "tekken",
        steps: &[Match(TEKKEN), Bytes],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Rule {
        names: "youtu",
        steps: &[Match(YOUTU_SCRIPTS), Match(YOUTU), Bytes],
        ignore_merges: true,
        ..PLAIN
    },
    Rule {
        names: "tiny_aya cohere2moe",
        steps: &[Match(AYA_THREES), Match(O200K), Bytes],
        ..PLAIN
    },
    Rule { names: "kimi-k2", steps: &[Match(KIMI), Bytes], ..PLAIN },
    Rule {
        names: "deepseek-llm",
        steps: &[
            Match(r"[\r\n]"),
            Match(DEEPSEEK_LETTERS),
            Match(DEEPSEEK_MARKS),
            Match(TRAILING_SPACES),
            Match(DEEPSEEK_CJK),
            DigitRuns,
            Bytes,
        ],
        ..PLAIN
    },
    Rule {
        names: "deepseek-coder",
        steps: &[
            Match(r"[\r\n]"),
            Match(r"\s?\p{L}+"),
            Match(r"\s?\p{P}+"),
            Match(DEEPSEEK_CJK),
            Digit,
            Bytes,
        ],
        ..PLAIN
    },
    Rule {
        names: "deepseek-v3 hunyuan-dense joyai-llm hy_v4",
        steps: &[Match(r"\p{N}{1,3}"), Match(CJK_KANA), Match(DEEPSEEK3), Bytes],
        ..PLAIN
    },
    Rule {
        names: "spark2_5",
        steps: &[Match(r"\p{N}{1,3}"), Match(CJK_KANA), Match(SPARK), Digit, Bytes],
        ..PLAIN
    },
    Rule {
        names: "afmoe",
        steps: &[Match(r"\p{N}+"), Match(THREES), Match(AFMOE_SCRIPTS), Match(DEEPSEEK3), Bytes],
        ..PLAIN
    },
    Rule {
        names: "superbpe",
        steps: &[Match(r"\p{N}+"), Match(SUPERBPE_THREES), Bytes],
        ..PLAIN
    },
    Rule { names: "bloom gpt3-finnish poro-chat", steps: &[Match(BLOOM), Bytes], ..PLAIN },
    Rule { names: "viking", steps: &[Match(BLOOM), Digit, Bytes], ..PLAIN },
    Rule {
        names: "falcon",
        steps: &[PunctuationRuns, Gpt2, DigitRuns, Match("[0-9][0-9][0-9]")],
        ..PLAIN
    },
    Rule {
        names: "chameleon",
        steps: &[
            Match("<sentinel:[0-9]+>"),
            Match("(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z"),
            Match(r"([\t\n]|    |  )"),
            Digit,
            PunctuationMark,
            Gpt2,
        ],
        add_bos: true,
        ..PLAIN
    },
];

/// Names that exist and that no rule here can be exact about.
const REFUSED: &[(&str, &str)] = &[
    (
        "gemma4 granite-embed-multi-311m mmbert sarvam-moe",
        "its tokens are characters, not bytes, and its spaces are word marks",
    ),
    ("whitespace", "its tokens are characters, not bytes"),
];

pub fn rule_of(name: &str) -> Result<&'static Rule> {
    let is_in = |names: &str| names.split(' ').any(|one| one == name);
    if let Some(rule) = RULES.iter().find(|rule| is_in(rule.names)) {
        return Ok(rule);
    }
    let why = match REFUSED.iter().find(|(names, _)| is_in(names)) {
        Some((_, why)) => format!(" ({why})"),
        None if name.is_empty() => " (the file has no tokenizer.ggml.pre)".to_string(),
        None => String::new(),
    };
    let mut names: Vec<&str> = RULES.iter().flat_map(|rule| rule.names.split(' ')).collect();
    names.sort_unstable();
    Err(Error::unsupported(format!(
        "pre-tokenizer {name:?} is not supported{why}; supported are {}",
        names.join(", ")
    )))
}

impl Rule {
    pub fn pre_tokenizer(&self) -> Result<PreTokenizerWrapper> {
        let parts: Result<Vec<PreTokenizerWrapper>> = self.steps.iter().map(Step::build).collect();
        Ok(Sequence::new(parts?).into())
    }
}

impl Step {
    fn build(&self) -> Result<PreTokenizerWrapper> {
        Ok(match self {
            Match(regex) => {
                let pattern = SplitPattern::Regex(regex.to_string());
                Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
                    .map_err(|e| Error::invalid(e.to_string()))?
                    .into()
            }
            Digit => Digits::new(true).into(),
            DigitRuns => Digits::new(false).into(),
            PunctuationMark => Punctuation::new(SplitDelimiterBehavior::Isolated).into(),
            PunctuationRuns => Punctuation::new(SplitDelimiterBehavior::Contiguous).into(),
            Gpt2 => ByteLevel::new(false, true, true).into(),
            Bytes => ByteLevel::new(false, true, false).into(),
        })
    }
}

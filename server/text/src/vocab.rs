//! Tokenizers from vocabulary arrays, as GGUF files carry them.

use serde_json::{Map, Value};
use tokenizers::decoders::{
    byte_fallback::ByteFallback, fuse::Fuse, sequence::Sequence as DecoderSequence, strip::Strip,
};
use tokenizers::models::bpe::{Merges, Vocab, BPE};
use tokenizers::models::wordlevel::WordLevel;
use tokenizers::normalizers::{
    replace::Replace, unicode::NFC, utils::Sequence as NormalizerSequence, Prepend,
};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{AddedToken, DecoderWrapper, NormalizerWrapper};

use crate::error::{Error, Result};
use crate::pieces::MAX_VOCAB;
use crate::pre_tokenizer::rule_of;
use crate::tokenizer::{Templates, Tokenizer};
use crate::unigram::{self, Kind, Unigram};

/// Token types as GGUF numbers them.
const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

const WORD_MARK: &str = "\u{2581}";

/// What a GGUF file says about its tokenizer; texts borrowed from the file.
#[derive(Default)]
pub struct VocabArrays<'a> {
    pub model: &'a str,
    pub pre: &'a str,
    pub tokens: Vec<&'a str>,
    pub token_types: &'a [i32],
    pub merges: Vec<&'a str>,
    pub scores: &'a [f32],
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unk: Option<u32>,
    pub pad: Option<u32>,
    // None where the file does not say.
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
    pub remove_extra_whitespaces: bool,
    /// SentencePiece's normalisation; empty: none.
    pub charsmap: &'a [u8],
    pub chat_template: Option<&'a str>,
    pub tool_template: Option<&'a str>,
}

/// Models there are, and why the others are refused.
const SUPPORTED_MODELS: &str = "gpt2 (byte-level BPE), llama (SentencePiece BPE), t5 (unigram)";
const OTHER_MODELS: [(&str, &str); 6] = [
    ("bert", "WordPiece is of models that do not generate text"),
    ("rwkv", "its tokens are found by a trie of its own"),
    ("plamo2", "its tokens are found by a table of its own"),
    ("gemma4", "its BPE merges characters over whole lines"),
    ("hybriddna", "its vocabulary is of DNA"),
    ("no_vocab", "the file has no tokenizer"),
];

pub fn open(arrays: &VocabArrays) -> Result<Tokenizer> {
    check(arrays)?;
    let mut model = None;
    // What a file that does not say means is SentencePiece's habit, or a habit of the model.
    let (mut inner, add_bos, add_eos) = match arrays.model {
        "gpt2" => (byte_level_bpe(arrays)?, rule_of(arrays.pre)?.add_bos, false),
        "llama" => (sentencepiece_bpe(arrays)?, true, false),
        "t5" => {
            model = Some(unigram_model(arrays)?);
            (unigram_names(arrays)?, false, true)
        }
        other => {
            let why = OTHER_MODELS.iter().find(|(name, _)| *name == other);
            let why = why.map_or(String::new(), |(_, why)| format!(" ({why})"));
            return Err(Error::unsupported(format!(
                "tokenizer model {other:?} is not supported{why}; supported are {SUPPORTED_MODELS}"
            )));
        }
    };
    let add_bos = arrays.add_bos.unwrap_or(add_bos && arrays.bos.is_some());
    let add_eos = arrays.add_eos.unwrap_or(add_eos && arrays.eos.is_some());
    let library = |e: tokenizers::Error| Error::invalid(e.to_string());
    inner.add_tokens(added_tokens(arrays)).map_err(library)?;
    if let Some(processor) = bos_eos_processor(arrays, add_bos, add_eos)? {
        inner.with_post_processor(Some(processor));
    }
    let mut special = Map::new();
    let named =
        [("bos", arrays.bos), ("eos", arrays.eos), ("unk", arrays.unk), ("pad", arrays.pad)];
    for (name, id) in named {
        if let Some(id) = id {
            let token = arrays.tokens[id as usize];
            special.insert(format!("{name}_token"), Value::String(token.to_string()));
        }
    }
    let templates = Templates {
        default: arrays.chat_template.map(str::to_string),
        tool_use: arrays.tool_template.map(str::to_string),
    };
    Tokenizer::new(inner, model, special, templates)
}

fn check(arrays: &VocabArrays) -> Result<()> {
    let n = arrays.tokens.len();
    if n == 0 || n > MAX_VOCAB as usize {
        return Err(Error::invalid(format!(
            "vocabulary has {n} tokens; it must have between 1 and {MAX_VOCAB}"
        )));
    }
    let same_length = |what: &str, len: usize| {
        if len != 0 && len != n {
            return Err(Error::invalid(format!("{len} {what} for {n} tokens")));
        }
        Ok(())
    };
    same_length("token types", arrays.token_types.len())?;
    same_length("scores", arrays.scores.len())?;
    let named = [
        ("bos", arrays.bos),
        ("eos", arrays.eos),
        ("unknown", arrays.unk),
        ("padding", arrays.pad),
    ];
    for (name, id) in named {
        if let Some(id) = id.filter(|id| *id as usize >= n) {
            return Err(Error::invalid(format!(
                "{name} token id {id} is outside of the vocabulary of {n} tokens"
            )));
        }
    }
    Ok(())
}

fn byte_level_bpe(arrays: &VocabArrays) -> Result<tokenizers::Tokenizer> {
    let rule = rule_of(arrays.pre)?;
    let vocab = vocab_of(arrays)?;
    let mut merges = Merges::with_capacity(arrays.merges.len());
    for (i, merge) in arrays.merges.iter().enumerate() {
        let Some((left, right)) = merge.split_once(' ') else {
            return Err(Error::invalid(format!("merge {i} ({merge:?}) is not two tokens")));
        };
        if !vocab.contains_key(format!("{left}{right}").as_str()) {
            return Err(Error::invalid(format!(
                "merge {i} ({merge:?}) makes a token that is not in the vocabulary"
            )));
        }
        merges.push((left.to_string(), right.to_string()));
    }
    let model = BPE::builder()
        .vocab_and_merges(vocab, merges)
        .ignore_merges(rule.ignore_merges)
        .build()
        .map_err(|e| Error::invalid(e.to_string()))?;
    let mut inner = tokenizers::Tokenizer::new(model);
    if rule.nfc {
        inner.with_normalizer(Some(NFC)).map_err(|e| Error::invalid(e.to_string()))?;
    }
    inner.with_pre_tokenizer(Some(rule.pre_tokenizer()?));
    inner.with_decoder(Some(ByteLevel::default()));
    Ok(inner)
}

/// SentencePiece's BPE: the best-scored adjacent pair is merged first. As merges: every way to
/// split a token in two, ordered by the token's score.
fn sentencepiece_bpe(arrays: &VocabArrays) -> Result<tokenizers::Tokenizer> {
    if arrays.scores.is_empty() {
        return Err(Error::invalid("tokenizer model \"llama\" needs scores, and there are none"));
    }
    let vocab = vocab_of(arrays)?;
    let mut ranked: Vec<(f32, &str, &str)> = Vec::new();
    for (i, token) in arrays.tokens.iter().enumerate() {
        if !matches!(arrays.token_types.get(i), None | Some(&NORMAL)) {
            continue;
        }
        let mut pairs: Vec<(u32, u32, &str, &str)> = token
            .char_indices()
            .skip(1)
            .filter_map(|(cut, _)| {
                let (left, right) = token.split_at(cut);
                Some((*vocab.get(left)?, *vocab.get(right)?, left, right))
            })
            .collect();
        pairs.sort_unstable();
        ranked.extend(pairs.into_iter().map(|(_, _, l, r)| (arrays.scores[i], l, r)));
    }
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let merges = ranked.into_iter().map(|(_, l, r)| (l.to_string(), r.to_string())).collect();
    let mut builder =
        BPE::builder().vocab_and_merges(vocab, merges).fuse_unk(true).byte_fallback(true);
    if let Some(unk) = arrays.unk {
        builder = builder.unk_token(arrays.tokens[unk as usize].to_string());
    }
    let model = builder.build().map_err(|e| Error::invalid(e.to_string()))?;
    let mut inner = tokenizers::Tokenizer::new(model);

    let library = |e: tokenizers::Error| Error::invalid(e.to_string());
    let mut normalizers: Vec<NormalizerWrapper> = Vec::new();
    let add_space_prefix = arrays.add_space_prefix.unwrap_or(true);
    if add_space_prefix {
        normalizers.push(Prepend::new(WORD_MARK.to_string()).into());
    }
    normalizers.push(Replace::new(" ", WORD_MARK).map_err(library)?.into());
    inner.with_normalizer(Some(NormalizerSequence::new(normalizers))).map_err(library)?;
    inner.with_decoder(Some(word_mark_decoder(usize::from(add_space_prefix))?));
    Ok(inner)
}

/// Word marks are spaces, bytes are bytes; up to `stripped` spaces that begin a text are left out.
fn word_mark_decoder(stripped: usize) -> Result<DecoderSequence> {
    let replace = Replace::new(WORD_MARK, " ").map_err(|e| Error::invalid(e.to_string()))?;
    let mut decoders: Vec<DecoderWrapper> =
        vec![replace.into(), ByteFallback::new().into(), Fuse::new().into()];
    if stripped > 0 {
        decoders.push(Strip::new(' ', stripped, 0).into());
    }
    Ok(DecoderSequence::new(decoders))
}

fn unigram_model(arrays: &VocabArrays) -> Result<Unigram> {
    if arrays.scores.is_empty() {
        return Err(Error::invalid("tokenizer model \"t5\" needs scores, and there are none"));
    }
    let Some(unknown) = arrays.unk else {
        return Err(Error::invalid(
            "tokenizer model \"t5\" needs an unknown token, and names none",
        ));
    };
    let kind = |i: usize| match arrays.token_types.get(i) {
        None | Some(&NORMAL) => Kind::Normal,
        Some(&USER_DEFINED) => Kind::UserDefined,
        Some(_) => Kind::Other,
    };
    let kinds: Vec<Kind> = (0..arrays.tokens.len()).map(kind).collect();
    let options = unigram::Options {
        add_space_prefix: arrays.add_space_prefix.unwrap_or(false),
        remove_extra_whitespaces: arrays.remove_extra_whitespaces,
    };
    Unigram::new(&arrays.tokens, arrays.scores, &kinds, unknown, arrays.charsmap, options)
}

/// Names and decoding of a unigram vocabulary; its texts are encoded by `Unigram`.
fn unigram_names(arrays: &VocabArrays) -> Result<tokenizers::Tokenizer> {
    let unknown = arrays.unk.map_or("", |unk| arrays.tokens[unk as usize]);
    let model = WordLevel::builder()
        .vocab(vocab_of(arrays)?)
        .unk_token(unknown.to_string())
        .build()
        .map_err(|e| Error::invalid(e.to_string()))?;
    let mut inner = tokenizers::Tokenizer::new(model);
    let stripped = match arrays.remove_extra_whitespaces {
        true => u32::MAX as usize,
        false => usize::from(arrays.add_space_prefix == Some(true)),
    };
    inner.with_decoder(Some(word_mark_decoder(stripped)?));
    Ok(inner)
}

fn vocab_of(arrays: &VocabArrays) -> Result<Vocab> {
    let mut vocab = Vocab::with_capacity(arrays.tokens.len());
    for (id, token) in arrays.tokens.iter().enumerate() {
        if let Some(first) = vocab.insert(token.to_string(), id as u32) {
            return Err(Error::invalid(format!("token {token:?} has two ids, {first} and {id}")));
        }
    }
    Ok(vocab)
}

fn added_tokens(arrays: &VocabArrays) -> Vec<AddedToken> {
    // Byte-level vocabularies have no unknown token; files that mark one mean an ordinary token.
    let special = |kind: i32| kind == CONTROL || (kind == UNKNOWN && arrays.model != "gpt2");
    // A unigram model finds them itself, so that no word begins after one.
    let user_defined = |kind: i32| kind == USER_DEFINED && arrays.model != "t5";
    arrays
        .tokens
        .iter()
        .zip(arrays.token_types)
        .filter(|(_, kind)| special(**kind) || user_defined(**kind))
        .map(|(token, kind)| AddedToken::from(*token, special(*kind)).normalized(false))
        .collect()
}

fn bos_eos_processor(
    arrays: &VocabArrays,
    add_bos: bool,
    add_eos: bool,
) -> Result<Option<TemplateProcessing>> {
    let wanted = |name: &str, add: bool, id: Option<u32>| match (add, id) {
        (false, _) => Ok(None),
        (true, Some(id)) => Ok(Some((arrays.tokens[id as usize].to_string(), id))),
        (true, None) => Err(Error::invalid(format!(
            "the vocabulary asks for {name} to be added but names no {name} token"
        ))),
    };
    let bos = wanted("bos", add_bos, arrays.bos)?;
    let eos = wanted("eos", add_eos, arrays.eos)?;
    if bos.is_none() && eos.is_none() {
        return Ok(None);
    }
    // Built as a list: token texts may hold spaces and '$', which the one-string form gives meaning.
    let mut single: Vec<Value> = Vec::new();
    let mut tokens = Map::new();
    let mut special = |(text, id): &(String, u32), single: &mut Vec<Value>| {
        single.push(serde_json::json!({"SpecialToken": {"id": text, "type_id": 0}}));
        tokens.insert(text.clone(), serde_json::json!({"id": text, "ids": [id], "tokens": [text]}));
    };
    bos.iter().for_each(|t| special(t, &mut single));
    single.push(serde_json::json!({"Sequence": {"id": "A", "type_id": 0}}));
    eos.iter().for_each(|t| special(t, &mut single));
    let pair = serde_json::json!([
        {"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}
    ]);
    let json = serde_json::json!({
        "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": tokens
    });
    serde_json::from_value(json).map(Some).map_err(|e| Error::invalid(e.to_string()))
}

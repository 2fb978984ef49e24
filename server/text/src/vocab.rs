//! Tokenizers from vocabulary arrays, as GGUF files carry them.
//!
//! The arrays name the split of text into words only by a word ("smollm"); what that word means is
//! the table in `pre_tokenizer_of`.

use serde_json::{Map, Value};
use tokenizers::decoders::{
    byte_fallback::ByteFallback, fuse::Fuse, sequence::Sequence as DecoderSequence, strip::Strip,
};
use tokenizers::models::bpe::{Merges, Vocab, BPE};
use tokenizers::normalizers::{
    replace::Replace, unicode::NFC, utils::Sequence as NormalizerSequence, Prepend,
};
use tokenizers::pre_tokenizers::{
    byte_level::ByteLevel, digits::Digits, sequence::Sequence, split::Split, split::SplitPattern,
};
use tokenizers::processors::template::TemplateProcessing;
use tokenizers::{
    AddedToken, DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, SplitDelimiterBehavior,
};

use crate::error::{Error, Result};
use crate::pieces::MAX_VOCAB;
use crate::tokenizer::Tokenizer;

/// Token types as GGUF numbers them.
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// The word mark of SentencePiece vocabularies.
const WORD_MARK: &str = "\u{2581}";

const SPLIT_LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SPLIT_QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const SUPPORTED_PRE: &str = "command-r, gpt-2, llama-bpe, mpt, qwen2, refact, smollm, starcoder";

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
    pub add_bos: bool,
    pub add_eos: bool,
    pub add_space_prefix: bool,
    pub chat_template: Option<&'a str>,
}

pub fn open(arrays: &VocabArrays) -> Result<Tokenizer> {
    check(arrays)?;
    let mut inner = match arrays.model {
        "gpt2" => byte_level_bpe(arrays)?,
        "llama" => sentencepiece_bpe(arrays)?,
        other => {
            return Err(Error::unsupported(format!(
                "tokenizer model {other:?} is not supported; supported are gpt2, llama"
            )))
        }
    };
    let library = |e: tokenizers::Error| Error::invalid(e.to_string());
    inner.add_tokens(added_tokens(arrays)).map_err(library)?;
    if let Some(processor) = bos_eos_processor(arrays)? {
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
    let template = arrays.chat_template.map(str::to_string);
    Tokenizer::new(inner, special, template)
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
    let pre_tokenizer = pre_tokenizer_of(arrays.pre)?;
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
        .ignore_merges(arrays.pre == "llama-bpe")
        .build()
        .map_err(|e| Error::invalid(e.to_string()))?;
    let mut inner = tokenizers::Tokenizer::new(model);
    if arrays.pre == "qwen2" {
        inner.with_normalizer(Some(NFC)).map_err(|e| Error::invalid(e.to_string()))?;
    }
    inner.with_pre_tokenizer(Some(pre_tokenizer));
    inner.with_decoder(Some(ByteLevel::default()));
    Ok(inner)
}

fn pre_tokenizer_of(name: &str) -> Result<PreTokenizerWrapper> {
    let gpt2 = || ByteLevel::new(false, true, true).into();
    let digits_then_gpt2 = || Sequence::new(vec![Digits::new(true).into(), gpt2()]).into();
    let split = |regex: &str| -> Result<PreTokenizerWrapper> {
        let pattern = SplitPattern::Regex(regex.to_string());
        let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
            .map_err(|e| Error::invalid(e.to_string()))?;
        Ok(Sequence::new(vec![split.into(), ByteLevel::new(false, true, false).into()]).into())
    };
    match name {
        "gpt-2" | "mpt" => Ok(gpt2()),
        "smollm" | "starcoder" | "refact" | "command-r" => Ok(digits_then_gpt2()),
        "llama-bpe" => split(SPLIT_LLAMA3),
        "qwen2" => split(SPLIT_QWEN2),
        _ => Err(Error::unsupported(format!(
            "pre-tokenizer {name:?} is not supported; supported are {SUPPORTED_PRE}"
        ))),
    }
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
        if !matches!(arrays.token_types.get(i), None | Some(1)) {
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
    let mut decoders: Vec<DecoderWrapper> = vec![
        Replace::new(WORD_MARK, " ").map_err(library)?.into(),
        ByteFallback::new().into(),
        Fuse::new().into(),
    ];
    if arrays.add_space_prefix {
        normalizers.push(Prepend::new(WORD_MARK.to_string()).into());
        decoders.push(Strip::new(' ', 1, 0).into());
    }
    normalizers.push(Replace::new(" ", WORD_MARK).map_err(library)?.into());
    inner.with_normalizer(Some(NormalizerSequence::new(normalizers))).map_err(library)?;
    inner.with_decoder(Some(DecoderSequence::new(decoders)));
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
    let special = |kind: i32| kind == CONTROL || (kind == UNKNOWN && arrays.model == "llama");
    arrays
        .tokens
        .iter()
        .zip(arrays.token_types)
        .filter(|(_, kind)| special(**kind) || **kind == USER_DEFINED)
        .map(|(token, kind)| AddedToken::from(*token, special(*kind)).normalized(false))
        .collect()
}

fn bos_eos_processor(arrays: &VocabArrays) -> Result<Option<TemplateProcessing>> {
    let wanted = |name: &str, add: bool, id: Option<u32>| match (add, id) {
        (false, _) => Ok(None),
        (true, Some(id)) => Ok(Some((arrays.tokens[id as usize].to_string(), id))),
        (true, None) => Err(Error::invalid(format!(
            "the vocabulary asks for {name} to be added but names no {name} token"
        ))),
    };
    let bos = wanted("bos", arrays.add_bos, arrays.bos)?;
    let eos = wanted("eos", arrays.add_eos, arrays.eos)?;
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

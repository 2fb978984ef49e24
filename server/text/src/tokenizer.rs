//! The tokenizer behind the ABI's handle: encoding, and what both sources have in common.

use serde_json::{Map, Value};
use tokenizers::{AddedVocabulary, Model, ModelWrapper, OffsetType, PreTokenizer, Token};

use crate::error::{Code, Error, Result};
use crate::pieces::Pieces;
use crate::unigram::Unigram;

/// The ids that a model's files name, where they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedIds {
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unk: Option<u32>,
    pub pad: Option<u32>,
}

/// A model's chat templates.
#[derive(Default)]
pub struct Templates {
    pub default: Option<String>,
    /// For conversations with tools, where the model has another one for them.
    pub tool_use: Option<String>,
}

/// Dropout is for training; here the same text always is the same tokens.
fn without_dropout(inner: &mut tokenizers::Tokenizer) {
    if let ModelWrapper::BPE(bpe) = inner.get_model() {
        if bpe.dropout.is_some() {
            let mut bpe = bpe.clone();
            bpe.dropout = None;
            inner.with_model(bpe);
        }
    }
}

/// Immutable after construction; safe to share between threads.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    /// Where it is there it does the work of `inner`'s normalizer and model.
    unigram: Option<Unigram>,
    /// The added vocabulary with special tokens switched off: for text in which they are ordinary.
    literal: AddedVocabulary,
    pub pieces: Pieces,
    pub named: NamedIds,
    /// `{"bos_token": "<s>", ...}`: what templates get as variables.
    pub special_tokens_json: String,
    pub templates: Templates,
}

impl Tokenizer {
    /// `special_tokens` maps `bos_token` and the like to the tokens' text.
    pub fn new(
        mut inner: tokenizers::Tokenizer,
        unigram: Option<Unigram>,
        special_tokens: Map<String, Value>,
        templates: Templates,
    ) -> Result<Tokenizer> {
        // A server's prompts are never cut or filled up by the tokenizer's own settings.
        inner.with_truncation(None).map_err(|e| Error::invalid(e.to_string()))?;
        inner.with_padding(None);
        without_dropout(&mut inner);
        let pieces = Pieces::build(&inner)?;
        let mut literal = inner.get_added_vocabulary().clone();
        literal.set_encode_special_tokens(true);
        let id_of = |key: &str| {
            special_tokens.get(key).and_then(Value::as_str).and_then(|t| inner.token_to_id(t))
        };
        let named = NamedIds {
            bos: id_of("bos_token"),
            eos: id_of("eos_token"),
            unk: id_of("unk_token"),
            pad: id_of("pad_token"),
        };
        let special_tokens_json = Value::Object(special_tokens).to_string();
        let tokenizer =
            Tokenizer { inner, unigram, literal, pieces, named, special_tokens_json, templates };
        tokenizer.check_added_around()?;
        Ok(tokenizer)
    }

    /// What is put around a text (BOS and the like) is written as ids: they must have tokens.
    fn check_added_around(&self) -> Result<()> {
        let ids = self
            .try_encode("", true, true)
            .map_err(|e| Error::invalid(format!("post_processor: {e}")))?;
        match ids.iter().find(|id| !self.pieces.has_token(**id)) {
            None => Ok(()),
            Some(id) => Err(Error::invalid(format!(
                "post_processor: it adds the token id {id}, which is not in the vocabulary"
            ))),
        }
    }

    pub fn find(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// `add_special`: add BOS and the like. `parse_special`: special tokens in the text are those
    /// tokens; otherwise they are ordinary text (added tokens that are not special always match).
    pub fn encode(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<u32>> {
        self.try_encode(text, add_special, parse_special)
            .map_err(|e| Error::new(Code::Internal, format!("encode: {e}")))
    }

    /// The steps of `tokenizers::Tokenizer::encode_fast`, taken one by one: there, "are special
    /// tokens ordinary text?" is a setting of the whole tokenizer, here it is an argument.
    fn try_encode(
        &self,
        text: &str,
        add_special: bool,
        parse_special: bool,
    ) -> tokenizers::Result<Vec<u32>> {
        let added = if parse_special { self.inner.get_added_vocabulary() } else { &self.literal };
        let mut pieces = added.extract_and_normalize(self.inner.get_normalizer(), text);
        if let Some(unigram) = &self.unigram {
            pieces.tokenize(|piece| {
                let mut ids = Vec::new();
                unigram.encode(piece.get(), &mut ids);
                Ok(ids.into_iter().map(|id| Token::new(id, String::new(), (0, 0))).collect())
            })?;
        } else {
            if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
                pre_tokenizer.pre_tokenize(&mut pieces)?;
            }
            self.inner.get_model().tokenize_in_pretokenized(&mut pieces, None)?;
        }
        let encoding = pieces.into_encoding(None, 0, OffsetType::None)?;
        Ok(self.inner.post_process(encoding, None, add_special)?.get_ids().to_vec())
    }
}

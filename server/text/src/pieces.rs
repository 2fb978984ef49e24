//! What each token id adds to the text: the table that decoding works from.

use tokenizers::decoders::DecoderWrapper;
use tokenizers::{Decoder, Tokenizer};

use crate::error::{Error, Result};

/// Flags of a token; the numbers are those of `QuireTextTokenFlags` in `text_ffi.h`.
pub const PRESENT: u8 = 1;
pub const SPECIAL: u8 = 2;
/// A `<0xAB>` token of a byte-fallback vocabulary: its byte may be part of a character.
pub const BYTE: u8 = 4;
/// The piece holds spaces that stand in the vocabulary as such, not as a word mark.
pub const LITERAL_SPACE: u8 = 8;

/// Ids are array indices here and in the engine; larger ones are a broken file.
pub const MAX_VOCAB: u32 = 1 << 22;

/// Every token's bytes, and the two rules that look beyond a single token.
#[derive(Default)]
pub struct Pieces {
    pub bytes: Vec<u8>,
    /// `vocab_size + 1` offsets into `bytes`.
    pub starts: Vec<u32>,
    pub flags: Vec<u8>,
    /// Incomplete characters may go on over the border of any two tokens (byte-level), or of two
    /// BYTE tokens only.
    pub byte_level: bool,
    /// The text loses up to `strip_count` leading `strip_char`s.
    pub strip_char: u32,
    pub strip_count: u32,
    /// The first token of a text loses its word marks.
    pub first_drops_spaces: bool,
}

/// How the bytes of one token follow from its name in the vocabulary.
enum Style {
    ByteLevel,
    /// Steps that work token by token (Replace and the like), then maybe byte fallback.
    Steps {
        steps: Vec<DecoderWrapper>,
        byte_fallback: bool,
    },
    Metaspace(DecoderWrapper),
    /// No decoder: tokens are joined by spaces.
    Joined,
}

impl Pieces {
    pub fn build(tokenizer: &Tokenizer) -> Result<Pieces> {
        let mut pieces = Pieces::default();
        let style = pieces.style_of(tokenizer.get_decoder())?;
        let names = names_by_id(tokenizer)?;
        let char_bytes = char_bytes();
        pieces.starts.reserve(names.len() + 1);
        pieces.flags.reserve(names.len());
        pieces.starts.push(0);
        for (id, name) in names.iter().enumerate() {
            let mut flags = 0;
            if let Some(name) = name {
                flags = PRESENT;
                if tokenizer.get_added_vocabulary().is_special_token(name) {
                    flags |= SPECIAL;
                }
                flags |= pieces.append(&style, name, &char_bytes).map_err(|e| {
                    Error::invalid(format!("token {id} ({name:?}) cannot be decoded: {e}"))
                })?;
            }
            pieces.flags.push(flags);
            let end = u32::try_from(pieces.bytes.len())
                .map_err(|_| Error::invalid("the vocabulary's tokens are longer than 4 GiB"))?;
            pieces.starts.push(end);
        }
        Ok(pieces)
    }

    pub fn vocab_size(&self) -> u32 {
        self.flags.len() as u32
    }

    pub fn has_token(&self, id: u32) -> bool {
        self.flags.get(id as usize).is_some_and(|flags| flags & PRESENT != 0)
    }

    fn style_of(&mut self, decoder: Option<&DecoderWrapper>) -> Result<Style> {
        let parts = match decoder {
            None => {
                (self.strip_char, self.strip_count) = (' ' as u32, 1);
                return Ok(Style::Joined);
            }
            Some(DecoderWrapper::Sequence(sequence)) => sequence.get_decoders(),
            Some(one) => std::slice::from_ref(one),
        };
        match parts {
            [DecoderWrapper::ByteLevel(_)] => {
                self.byte_level = true;
                return Ok(Style::ByteLevel);
            }
            [DecoderWrapper::Metaspace(metaspace)] => {
                let options = serde_json::to_value(metaspace).unwrap_or_default();
                self.first_drops_spaces = options["prepend_scheme"] != "never";
                return Ok(Style::Metaspace(parts[0].clone()));
            }
            _ => {}
        }
        let mut steps = Vec::new();
        let (mut byte_fallback, mut fused) = (false, false);
        for part in parts {
            match part {
                DecoderWrapper::Replace(_) if !byte_fallback && !fused => steps.push(part.clone()),
                DecoderWrapper::Strip(strip) if !byte_fallback && !fused && strip.stop == 0 => {
                    steps.push(part.clone())
                }
                DecoderWrapper::ByteFallback(_) if !byte_fallback && !fused => byte_fallback = true,
                DecoderWrapper::Fuse(_) => fused = true,
                DecoderWrapper::Strip(strip) if fused && strip.stop == 0 => {
                    if self.strip_count != 0 {
                        return Err(unsupported_decoder(part));
                    }
                    (self.strip_char, self.strip_count) = (strip.content as u32, strip.start as u32)
                }
                _ => return Err(unsupported_decoder(part)),
            }
        }
        Ok(Style::Steps { steps, byte_fallback })
    }

    /// Appends the bytes of the token called `name` and returns the flags that follow from them.
    fn append(&mut self, style: &Style, name: &str, char_bytes: &[u8; 512]) -> Result<u8> {
        let one = |decoder: &DecoderWrapper, text: String| -> Result<String> {
            let mut out =
                decoder.decode_chain(vec![text]).map_err(|e| Error::invalid(e.to_string()))?;
            Ok(out.pop().unwrap_or_default())
        };
        match style {
            Style::ByteLevel => {
                let start = self.bytes.len();
                for c in name.chars() {
                    let known =
                        (c as usize) < 512 && (c == '\u{100}' || char_bytes[c as usize] != 0);
                    if !known {
                        // Not the byte alphabet (an added token): the name is the text.
                        self.bytes.truncate(start);
                        self.bytes.extend_from_slice(name.as_bytes());
                        break;
                    }
                    self.bytes.push(char_bytes[c as usize]);
                }
                Ok(0)
            }
            Style::Steps { steps, byte_fallback } => {
                let mut text = name.to_string();
                for step in steps {
                    text = one(step, text)?;
                }
                if *byte_fallback {
                    if let Some(byte) = byte_of(&text) {
                        self.bytes.push(byte);
                        return Ok(BYTE);
                    }
                }
                self.bytes.extend_from_slice(text.as_bytes());
                Ok(0)
            }
            Style::Metaspace(metaspace) => {
                // The second of two tokens: the first would lose its word marks.
                let mut out = metaspace
                    .decode_chain(vec![String::new(), name.to_string()])
                    .map_err(|e| Error::invalid(e.to_string()))?;
                self.bytes.extend_from_slice(out.pop().unwrap_or_default().as_bytes());
                Ok(if name.contains(' ') { LITERAL_SPACE } else { 0 })
            }
            Style::Joined => {
                self.bytes.push(b' ');
                self.bytes.extend_from_slice(name.as_bytes());
                Ok(0)
            }
        }
    }
}

fn unsupported_decoder(part: &DecoderWrapper) -> Error {
    let json = serde_json::to_value(part).unwrap_or_default();
    Error::unsupported(format!(
        "decoder {} (or its place among the others) is not supported; supported are ByteLevel, \
         Metaspace, none, and sequences of Replace, Strip, ByteFallback, Fuse, Strip",
        json["type"]
    ))
}

/// `<0xAB>` -> 0xAB, as the ByteFallback decoder reads it.
fn byte_of(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    if hex.len() != 2 {
        return None;
    }
    u8::from_str_radix(hex, 16).ok()
}

/// The byte-level alphabet: printable Latin-1 stands for itself, the other bytes from U+0100 on.
/// Byte 0 is U+0100, so a zero elsewhere means "not in the alphabet".
fn char_bytes() -> [u8; 512] {
    let mut table = [0; 512];
    let mut next = 256;
    for byte in 0..=255u8 {
        let printable = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let index = if printable { byte as usize } else { next };
        next += usize::from(!printable);
        table[index] = byte;
    }
    table
}

fn names_by_id(tokenizer: &Tokenizer) -> Result<Vec<Option<String>>> {
    let mut names: Vec<Option<String>> = Vec::new();
    let mut put = |name: String, id: u32| {
        if id >= MAX_VOCAB {
            return Err(Error::invalid(format!(
                "token {name:?} has id {id}; ids must be below {MAX_VOCAB}"
            )));
        }
        if names.len() <= id as usize {
            names.resize(id as usize + 1, None);
        }
        names[id as usize] = Some(name);
        Ok(())
    };
    for (name, id) in tokenizer.get_vocab(false) {
        put(name, id)?;
    }
    let added = tokenizer.get_added_vocabulary();
    for id in added.get_added_tokens_decoder().keys() {
        // The normalized form where there is one: it is what the decoder sees.
        if let Some(name) = added.simple_id_to_token(*id) {
            put(name, *id)?;
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_a_bijection() {
        let table = char_bytes();
        let mut seen = [false; 256];
        seen[table[0x100] as usize] = true;
        for byte in table.iter().filter(|b| **b != 0) {
            assert!(!seen[*byte as usize]);
            seen[*byte as usize] = true;
        }
        assert!(seen.iter().all(|s| *s));
        assert_eq!(table['Ġ' as usize], b' ');
        assert_eq!(table['Ċ' as usize], b'\n');
    }

    #[test]
    fn byte_tokens_are_read_like_byte_fallback_reads_them() {
        assert_eq!(byte_of("<0xAB>"), Some(0xAB));
        assert_eq!(byte_of("<0x0a>"), Some(0x0A));
        assert_eq!(byte_of("<0xG0>"), None);
        assert_eq!(byte_of("<0xABC>"), None);
    }
}

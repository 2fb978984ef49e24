//! SentencePiece's unigram model: normalisation and the best-scored way to cut a text.
//!
//! Done here and not by the library underneath, whose normaliser goes by graphemes where
//! SentencePiece takes the longest match, and whose model would match control tokens in text.
//! Sums are 32-bit floats as SentencePiece's are: ties decide the tokens of long runs.
//! (T. Kudo, "Subword Regularization", 2018, section 3.2; sentencepiece's model format.)

use std::collections::HashMap;

use crate::error::{Error, Result};

/// The word mark of SentencePiece vocabularies.
pub const WORD_MARK: char = '\u{2581}';

/// What an unknown character costs beside the worst token.
const UNKNOWN_PENALTY: f32 = 10.0;
/// Longer replacements cannot come from a file that SentencePiece made.
const MAX_CHARSMAP_BYTES: usize = 16 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Normal,
    /// Taken as it is written, before anything else.
    UserDefined,
    /// Control, unknown, unused, byte: never found in a text.
    Other,
}

pub struct Options {
    pub add_space_prefix: bool,
    pub remove_extra_whitespaces: bool,
}

pub struct Unigram {
    /// Children by (node, byte); node 0 is the root.
    edges: HashMap<(u32, u8), u32>,
    /// By node: the token that ends there.
    ends: Vec<Option<u32>>,
    scores: Vec<f32>,
    user_defined: Vec<bool>,
    max_score: f32,
    unknown_score: f32,
    unknown: u32,
    /// Tokens of the 256 bytes, where the vocabulary has them all.
    bytes: Option<Vec<u32>>,
    options: Options,
    charsmap: Charsmap,
}

/// The best way to cut the text up to some byte.
#[derive(Clone, Copy)]
struct Best {
    score: f32,
    start: u32,
    token: u32,
}

impl Unigram {
    /// `tokens`, `scores` and `kinds` are of one length; `unknown` is an index.
    pub fn new(
        tokens: &[&str],
        scores: &[f32],
        kinds: &[Kind],
        unknown: u32,
        charsmap: &[u8],
        options: Options,
    ) -> Result<Unigram> {
        let mut model = Unigram {
            edges: HashMap::new(),
            ends: vec![None],
            scores: scores.to_vec(),
            user_defined: kinds.iter().map(|kind| *kind == Kind::UserDefined).collect(),
            max_score: f32::NEG_INFINITY,
            unknown_score: f32::INFINITY,
            unknown,
            bytes: byte_tokens(tokens),
            options,
            charsmap: Charsmap::parse(charsmap)?,
        };
        for (id, (token, kind)) in tokens.iter().zip(kinds).enumerate() {
            if *kind == Kind::Normal {
                if !scores[id].is_finite() {
                    return Err(Error::invalid(format!("score of token {id} is not finite")));
                }
                model.max_score = model.max_score.max(scores[id]);
                model.unknown_score = model.unknown_score.min(scores[id]);
            }
            if *kind != Kind::Other && !token.is_empty() {
                model.insert(token.as_bytes(), id as u32);
            }
        }
        if model.max_score == f32::NEG_INFINITY {
            return Err(Error::invalid("the unigram vocabulary has no token of the normal type"));
        }
        model.unknown_score -= UNKNOWN_PENALTY;
        Ok(model)
    }

    fn insert(&mut self, token: &[u8], id: u32) {
        let mut node = 0;
        for byte in token {
            let next = self.ends.len() as u32;
            node = *self.edges.entry((node, *byte)).or_insert(next);
            if node == next {
                self.ends.push(None);
            }
        }
        self.ends[node as usize] = Some(id);
    }

    /// All tokens that `text` starts with, the shortest first: their lengths and ids.
    fn prefixes<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = (usize, u32)> + 'a {
        let mut node = 0;
        text.iter()
            .enumerate()
            .map_while(move |(i, byte)| {
                node = *self.edges.get(&(node, *byte))?;
                Some((i + 1, self.ends[node as usize]))
            })
            .filter_map(|(length, id)| Some((length, id?)))
    }

    pub fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        let text = self.normalize(text);
        let best = self.best_cuts(&text);
        let mut cuts = Vec::new();
        let mut end = text.len();
        while end > 0 {
            let cut = best[end].expect("every character has a cut");
            cuts.push((cut.token, cut.start as usize..end));
            end = cut.start as usize;
        }
        let mut after_unknown = false;
        for (token, range) in cuts.into_iter().rev() {
            let is_unknown = token == self.unknown;
            match &self.bytes {
                Some(bytes) if is_unknown => {
                    ids.extend(text.as_bytes()[range].iter().map(|byte| bytes[*byte as usize]));
                }
                // A run of unknown characters is one token.
                _ if is_unknown && after_unknown => {}
                _ => ids.push(token),
            }
            after_unknown = is_unknown;
        }
    }

    fn best_cuts(&self, text: &str) -> Vec<Option<Best>> {
        let mut best: Vec<Option<Best>> = vec![None; text.len() + 1];
        for (start, c) in text.char_indices() {
            // The character before has reached `start`, by a token or as an unknown one.
            let so_far = best[start].map_or(0.0, |best| best.score);
            let mut offer = |length: usize, token: u32, score: f32| {
                let score = so_far + score;
                let target = &mut best[start + length];
                if target.is_none_or(|best| score > best.score) {
                    *target = Some(Best { score, start: start as u32, token });
                }
            };
            let mut single = false;
            for (length, token) in self.prefixes(&text.as_bytes()[start..]) {
                let score = match self.user_defined[token as usize] {
                    true => length as f32 * self.max_score - 0.1,
                    false => self.scores[token as usize],
                };
                offer(length, token, score);
                single |= length == c.len_utf8();
            }
            if !single {
                offer(c.len_utf8(), self.unknown, self.unknown_score);
            }
        }
        best
    }

    /// The text as the model was trained to see it: characters replaced, spaces as word marks.
    fn normalize(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 3);
        let strip = self.options.remove_extra_whitespaces;
        let mut after_space = strip;
        let mut prefix_due = self.options.add_space_prefix && !text.is_empty();
        let mut rest = text;
        while !rest.is_empty() {
            let (length, replacement) = self.next_part(rest);
            let part = replacement.unwrap_or(&rest[..length]);
            rest = &rest[length..];
            let part = if after_space { part.trim_start_matches(' ') } else { part };
            // Spaces that are removed from the start of a text do not begin it.
            if prefix_due && !(strip && part.is_empty()) {
                out.push(WORD_MARK);
                prefix_due = false;
            }
            if part.is_empty() {
                continue;
            }
            out.extend(part.chars().map(|c| if c == ' ' { WORD_MARK } else { c }));
            after_space = strip && part.ends_with(' ');
        }
        if strip {
            out.truncate(out.trim_end_matches(WORD_MARK).len());
        }
        out
    }

    /// How much of `text` is taken next, and what stands for it where it is replaced.
    fn next_part<'a>(&'a self, text: &str) -> (usize, Option<&'a str>) {
        let user_defined = |(_, id): &(usize, u32)| self.user_defined[*id as usize];
        if let Some((length, _)) = self.prefixes(text.as_bytes()).filter(user_defined).last() {
            return (length, None);
        }
        if let Some((length, replacement)) = self.charsmap.longest(text.as_bytes()) {
            if text.is_char_boundary(length) {
                return (length, Some(replacement));
            }
        }
        (text.chars().next().map_or(0, char::len_utf8), None)
    }
}

fn byte_tokens(tokens: &[&str]) -> Option<Vec<u32>> {
    let ids: HashMap<&str, u32> = tokens.iter().enumerate().map(|(i, t)| (*t, i as u32)).collect();
    (0..256).map(|byte| ids.get(format!("<0x{byte:02X}>").as_str()).copied()).collect()
}

/// SentencePiece's `precompiled_charsmap`: the size of a double array in bytes, the array (Darts'
/// units of 32 bits), and the replacements, each ended by a zero byte.
struct Charsmap {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl Charsmap {
    fn parse(data: &[u8]) -> Result<Charsmap> {
        if data.is_empty() {
            return Ok(Charsmap { units: Vec::new(), replacements: Vec::new() });
        }
        let broken = |why: &str| Error::invalid(format!("precompiled charsmap: {why}"));
        if data.len() > MAX_CHARSMAP_BYTES {
            return Err(broken(&format!("{} bytes; at most {MAX_CHARSMAP_BYTES}", data.len())));
        }
        let word = |chunk: &[u8]| u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        let (size, rest) = data.split_at_checked(4).ok_or_else(|| broken("no size"))?;
        let size = word(size) as usize;
        if !size.is_multiple_of(4) || size == 0 || size >= rest.len() {
            return Err(broken("the size of its array is not that of a charsmap"));
        }
        let (array, replacements) = rest.split_at(size);
        if replacements.last() != Some(&0) || std::str::from_utf8(replacements).is_err() {
            return Err(broken("its replacements are not texts"));
        }
        let units = array.chunks_exact(4).map(word).collect();
        Ok(Charsmap { units, replacements: replacements.to_vec() })
    }

    /// The longest key that `text` starts with, and its replacement.
    fn longest(&self, text: &[u8]) -> Option<(usize, &str)> {
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let mut at = offset(*self.units.first()?) as usize;
        let mut found = None;
        for (i, byte) in text.iter().enumerate() {
            at ^= *byte as usize;
            let Some(unit) = self.units.get(at) else { break };
            if *byte == 0 || unit & (1 << 31 | 0xFF) != u32::from(*byte) {
                break;
            }
            at ^= offset(*unit) as usize;
            if unit >> 8 & 1 == 1 {
                let value = self.units.get(at).map(|leaf| (leaf & !(1 << 31)) as usize);
                found = value.map(|value| (i + 1, value)).or(found);
            }
        }
        let (length, start) = found?;
        let text = self.replacements.get(start..)?;
        let end = text.iter().position(|byte| *byte == 0)?;
        Some((length, std::str::from_utf8(&text[..end]).ok()?))
    }
}

//! The C ABI. `text_ffi.h` is its description and states who owns what; the layouts here and the
//! assertions at the end of both files keep the two the same.

use std::mem::{offset_of, size_of, ManuallyDrop};
use std::path::Path;
use std::sync::Once;

use crate::chat_template::{Chat, ChatTemplate};
use crate::error::{catch, Code, Error, Result};
use crate::hf_dir;
use crate::tokenizer::Tokenizer;
use crate::vocab::{self, VocabArrays};

const OK: i32 = 0;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Bytes {
    data: *const u8,
    size: usize,
}

#[repr(C)]
pub struct Buffer {
    data: *mut u8,
    size: usize,
    /// Bytes to free; the alignment of the allocation is that of u32.
    capacity: usize,
}

#[repr(C)]
pub struct Vocab {
    model: Bytes,
    pre: Bytes,
    tokens: *const Bytes,
    num_tokens: usize,
    token_types: *const i32,
    num_token_types: usize,
    merges: *const Bytes,
    num_merges: usize,
    scores: *const f32,
    num_scores: usize,
    chat_template: Bytes,
    tool_template: Bytes,
    charsmap: Bytes,
    bos_id: i64,
    eos_id: i64,
    unk_id: i64,
    pad_id: i64,
    add_bos: i8,
    add_eos: i8,
    add_space_prefix: i8,
    remove_extra_whitespaces: u8,
}

#[repr(C)]
pub struct TokenizerView {
    bytes: *const u8,
    starts: *const u32,
    flags: *const u8,
    special_tokens_json: Bytes,
    chat_template: Bytes,
    tool_template: Bytes,
    vocab_size: u32,
    bos_id: i32,
    eos_id: i32,
    unk_id: i32,
    pad_id: i32,
    strip_char: u32,
    strip_count: u32,
    byte_level: u8,
    first_drops_spaces: u8,
}

#[repr(C)]
pub struct ChatBytes {
    messages: Bytes,
    tools: Bytes,
    kwargs: Bytes,
    now: Bytes,
    add_generation_prompt: u8,
    continue_final_message: u8,
}

impl Bytes {
    const NONE: Bytes = Bytes { data: std::ptr::null(), size: 0 };

    fn lend(text: &str) -> Bytes {
        Bytes { data: text.as_ptr(), size: text.len() }
    }

    /// # Safety
    /// `data` points to `size` bytes that outlive `'a`, or is null.
    unsafe fn get<'a>(self, what: &str) -> Result<Option<&'a str>> {
        if self.data.is_null() {
            return Ok(None);
        }
        let bytes = unsafe { std::slice::from_raw_parts(self.data, self.size) };
        std::str::from_utf8(bytes).map(Some).map_err(|e| {
            Error::invalid(format!("{what}: not UTF-8 from byte {} on", e.valid_up_to()))
        })
    }

    /// # Safety
    /// As `get`.
    unsafe fn text<'a>(self, what: &str) -> Result<&'a str> {
        Ok(unsafe { self.get(what) }?.unwrap_or_default())
    }
}

impl Buffer {
    /// Takes any text or ids over; they are copied into words, so that one way of freeing fits all.
    fn of(bytes: &[u8]) -> Buffer {
        let mut words: Vec<u32> = vec![0; bytes.len().div_ceil(4)];
        let data = words.as_mut_ptr().cast::<u8>();
        // SAFETY: `words` has room for `bytes`, and is no part of it.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), data, bytes.len()) };
        Buffer::from_words(words, bytes.len())
    }

    fn from_words(words: Vec<u32>, size: usize) -> Buffer {
        let mut words = ManuallyDrop::new(words);
        Buffer { data: words.as_mut_ptr().cast(), size, capacity: words.capacity() * 4 }
    }
}

/// # Safety
/// `data` points to `len` values that outlive `'a`, or is null.
unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() {
        return &[];
    }
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// Runs a fallible function: its value goes to `out`, its failure to `message`.
///
/// # Safety
/// `out` and `message` can be written.
unsafe fn finish<T>(
    out: *mut T,
    message: *mut Buffer,
    panic_code: Code,
    body: impl FnOnce() -> Result<T>,
) -> i32 {
    // A panic becomes an error of its call; the default hook would print it as well.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    match catch(panic_code, "the text library failed", body) {
        Ok(value) => {
            unsafe { out.write(value) };
            OK
        }
        Err(error) => {
            unsafe { message.write(Buffer::of(error.shown().as_bytes())) };
            error.code as i32
        }
    }
}

fn id_or_none(what: &str, id: i64) -> Result<Option<u32>> {
    match id {
        -1 => Ok(None),
        _ => u32::try_from(id)
            .map(Some)
            .map_err(|_| Error::invalid(format!("{what} token id {id} is not a token id"))),
    }
}

/// A yes, a no, or -1: the file does not say.
fn flag(value: i8) -> Option<bool> {
    (value >= 0).then_some(value != 0)
}

unsafe fn texts<'a>(list: &[Bytes], what: &str) -> Result<Vec<&'a str>> {
    let one = |(i, bytes): (usize, &Bytes)| unsafe {
        bytes
            .text(what)
            .map_err(|e| Error::invalid(format!("{what} {i}{}", &e.message[what.len()..])))
    };
    list.iter().enumerate().map(one).collect()
}

unsafe fn open_vocab(vocab: &Vocab) -> Result<Tokenizer> {
    let arrays = unsafe {
        VocabArrays {
            model: vocab.model.text("tokenizer model")?,
            pre: vocab.pre.text("pre-tokenizer")?,
            tokens: texts(slice(vocab.tokens, vocab.num_tokens), "token")?,
            token_types: slice(vocab.token_types, vocab.num_token_types),
            merges: texts(slice(vocab.merges, vocab.num_merges), "merge")?,
            scores: slice(vocab.scores, vocab.num_scores),
            bos: id_or_none("bos", vocab.bos_id)?,
            eos: id_or_none("eos", vocab.eos_id)?,
            unk: id_or_none("unknown", vocab.unk_id)?,
            pad: id_or_none("padding", vocab.pad_id)?,
            add_bos: flag(vocab.add_bos),
            add_eos: flag(vocab.add_eos),
            add_space_prefix: flag(vocab.add_space_prefix),
            remove_extra_whitespaces: vocab.remove_extra_whitespaces != 0,
            charsmap: slice(vocab.charsmap.data, vocab.charsmap.size),
            chat_template: vocab.chat_template.get("chat template")?,
            tool_template: vocab.tool_template.get("chat template for tools")?,
        }
    };
    vocab::open(&arrays)
}

/// # Safety
/// As `text_ffi.h` says; so for all functions here.
#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_open(
    directory: Bytes,
    vocab: *const Vocab,
    tokenizer: *mut *mut Tokenizer,
    message: *mut Buffer,
) -> i32 {
    let body = || {
        let directory = unsafe { directory.text("directory") }?;
        let tokenizer = match (directory, unsafe { vocab.as_ref() }) {
            ("", Some(vocab)) => unsafe { open_vocab(vocab) }?,
            ("", None) => return Err(Error::invalid("neither a directory nor a vocabulary")),
            // Broken files make the library underneath panic as well.
            (directory, _) => {
                let what = format!("{directory}/tokenizer.json: cannot be read as a tokenizer");
                catch(Code::Invalid, &what, || hf_dir::open(Path::new(directory)))?
            }
        };
        Ok(Box::into_raw(Box::new(tokenizer)))
    };
    unsafe { finish(tokenizer, message, Code::Invalid, body) }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_free(tokenizer: *mut Tokenizer) {
    if !tokenizer.is_null() {
        drop(unsafe { Box::from_raw(tokenizer) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_view(
    tokenizer: *const Tokenizer,
    view: *mut TokenizerView,
) {
    let tokenizer = unsafe { &*tokenizer };
    let pieces = &tokenizer.pieces;
    let id = |id: Option<u32>| id.map_or(-1, |id| id as i32);
    let lend = |text: &Option<String>| text.as_deref().map_or(Bytes::NONE, Bytes::lend);
    let filled = TokenizerView {
        bytes: pieces.bytes.as_ptr(),
        starts: pieces.starts.as_ptr(),
        flags: pieces.flags.as_ptr(),
        special_tokens_json: Bytes::lend(&tokenizer.special_tokens_json),
        chat_template: lend(&tokenizer.templates.default),
        tool_template: lend(&tokenizer.templates.tool_use),
        vocab_size: pieces.vocab_size(),
        bos_id: id(tokenizer.named.bos),
        eos_id: id(tokenizer.named.eos),
        unk_id: id(tokenizer.named.unk),
        pad_id: id(tokenizer.named.pad),
        strip_char: pieces.strip_char,
        strip_count: pieces.strip_count,
        byte_level: u8::from(pieces.byte_level),
        first_drops_spaces: u8::from(pieces.first_drops_spaces),
    };
    unsafe { view.write(filled) };
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_encode(
    tokenizer: *const Tokenizer,
    text: Bytes,
    add_special: u8,
    parse_special: u8,
    ids: *mut Buffer,
    message: *mut Buffer,
) -> i32 {
    let body = || {
        let text = unsafe { text.text("text") }?;
        let tokenizer = unsafe { &*tokenizer };
        let ids = tokenizer.encode(text, add_special != 0, parse_special != 0)?;
        let size = ids.len() * size_of::<u32>();
        Ok(Buffer::from_words(ids, size))
    };
    unsafe { finish(ids, message, Code::Internal, body) }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_tokenizer_find(
    tokenizer: *const Tokenizer,
    token: Bytes,
) -> i64 {
    let body = || {
        let token = unsafe { token.text("token") }?;
        Ok(unsafe { &*tokenizer }.find(token))
    };
    match catch(Code::Internal, "find", body) {
        Ok(Some(id)) => i64::from(id),
        Ok(None) | Err(_) => -1,
    }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_compile(
    source: Bytes,
    special_tokens_json: Bytes,
    chat_template: *mut *mut ChatTemplate,
    message: *mut Buffer,
) -> i32 {
    let body = || {
        let source = unsafe { source.text("chat template") }?;
        let special_tokens = unsafe { special_tokens_json.text("special tokens") }?;
        Ok(Box::into_raw(Box::new(ChatTemplate::compile(source, special_tokens)?)))
    };
    unsafe { finish(chat_template, message, Code::Internal, body) }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_free(chat_template: *mut ChatTemplate) {
    if !chat_template.is_null() {
        drop(unsafe { Box::from_raw(chat_template) });
    }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_template_render(
    chat_template: *const ChatTemplate,
    chat: *const ChatBytes,
    text: *mut Buffer,
    message: *mut Buffer,
) -> i32 {
    let body = || {
        let bytes = unsafe { &*chat };
        let chat = unsafe {
            Chat {
                messages: bytes.messages.text("messages")?,
                tools: bytes.tools.get("tools")?,
                kwargs: bytes.kwargs.get("template arguments")?,
                now: bytes.now.text("now")?,
                add_generation_prompt: bytes.add_generation_prompt != 0,
                continue_final_message: bytes.continue_final_message != 0,
            }
        };
        let chat_template = unsafe { &*chat_template };
        Ok(Buffer::of(chat_template.render(&chat)?.as_bytes()))
    };
    unsafe { finish(text, message, Code::Internal, body) }
}

#[no_mangle]
pub unsafe extern "C" fn quire_text_buffer_free(buffer: Buffer) {
    if buffer.capacity > 0 {
        drop(unsafe { Vec::<u32>::from_raw_parts(buffer.data.cast(), 0, buffer.capacity / 4) });
    }
}

// text_ffi.h asserts the same numbers.
const _: () = {
    assert!(size_of::<Buffer>() == 24 && size_of::<Vocab>() == 184);
    assert!(size_of::<TokenizerView>() == 104 && size_of::<ChatBytes>() == 72);
    assert!(offset_of!(Vocab, bos_id) == 144 && offset_of!(Vocab, add_bos) == 176);
    assert!(offset_of!(TokenizerView, vocab_size) == 72);
    assert!(offset_of!(TokenizerView, byte_level) == 100);
};

#[cfg(test)]
mod tests {
    /// The function names after each occurrence of `before`.
    fn names<'a>(source: &'a str, before: &str) -> Vec<&'a str> {
        let mut names: Vec<&str> = source
            .split(before)
            .skip(1)
            .filter_map(|rest| rest.split_once('(').map(|(name, _)| name))
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_header_declares_what_is_defined_here_and_no_more_than_15_functions() {
        let header: String = include_str!("../text_ffi.h")
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .map(|line| format!("{line}\n"))
            .collect();
        let declared = names(&header, " quire_text_");
        let defined = names(include_str!("ffi.rs"), "extern \"C\" fn quire_text_");
        let defined: Vec<&str> = defined.into_iter().filter(|name| !name.contains('"')).collect();
        assert_eq!(declared, defined);
        assert!(declared.len() <= 15, "{declared:?}");
    }
}

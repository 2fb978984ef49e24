//! Tokenizers and chat templates behind Quire's C ABI (`text_ffi.h`, kept by hand).
//!
//! Deliberately thin: `tokenizers` encodes, `minijinja` renders, and this crate opens files, keeps
//! the two exact where they differ from what models expect, and bounds what a template may do.
//! Unigram models of GGUF files are the exception: `unigram.rs` is all of them.
//! Decoding needs no call into this crate: it hands out a table of every token's bytes once
//! (`pieces.rs`) and the C++ side joins them.

mod chat_template;
mod error;
mod ffi;
mod hf_dir;
mod pieces;
mod pre_tokenizer;
mod pyjson;
mod strftime;
mod tokenizer;
mod unigram;
mod vocab;

//! One error type for everything the ABI reports.

use std::fmt;

/// What kind of failure it is; the numbers are those of `QuireTextCode` in `text_ffi.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    /// The input is malformed: a file, an array, a request.
    Invalid = 1,
    /// A file is not there.
    NotFound = 2,
    /// Well formed, but of a kind this library does not handle.
    Unsupported = 3,
    /// The template called `raise_exception`: it refuses this conversation.
    Raised = 4,
    /// The template itself fails on this conversation.
    TemplateFault = 5,
    /// A bound on steps, depth or output was reached.
    Exhausted = 6,
    /// A bug, here or in a library underneath.
    Internal = 7,
}

#[derive(Debug)]
pub struct Error {
    pub code: Code,
    pub message: String,
}

pub type Result<T> = std::result::Result<T, Error>;

/// Longer messages are cut: they may quote a file. The longest of our own lists all pre-tokenizers.
const MAX_MESSAGE_BYTES: usize = 2000;

impl Error {
    pub fn new(code: Code, message: impl Into<String>) -> Error {
        Error { code, message: message.into() }
    }

    pub fn invalid(message: impl Into<String>) -> Error {
        Error::new(Code::Invalid, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Error {
        Error::new(Code::Unsupported, message)
    }

    /// The message as callers get it. It may quote what nobody vouches for, so control characters
    /// are written out. What a template says by `raise_exception` may have lines.
    pub fn shown(&self) -> String {
        let mut shown = String::with_capacity(self.message.len().min(MAX_MESSAGE_BYTES));
        for c in self.message.chars() {
            if shown.len() >= MAX_MESSAGE_BYTES {
                shown.push_str("...");
                break;
            }
            if c.is_control() && !(c == '\n' && self.code == Code::Raised) {
                shown.extend(c.escape_default());
            } else {
                shown.push(c);
            }
        }
        shown
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Runs `body`; a panic in it (or in a library under it) becomes an error of kind `code` whose
/// message starts with `what`.
pub fn catch<T>(code: Code, what: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(payload) => {
            let why = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| payload.downcast_ref::<&str>().copied())
                .unwrap_or("no reason given");
            Err(Error::new(code, format!("{what}: {why}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_and_control_characters_written_out() {
        assert_eq!(Error::invalid("a\u{1b}[2J\nb\u{e9}").shown(), "a\\u{1b}[2J\\nb\u{e9}");
        assert_eq!(Error::new(Code::Raised, "one\ntwo").shown(), "one\ntwo");
        let long = Error::invalid("\u{e9}".repeat(10_000)).shown();
        assert_eq!(long, "\u{e9}".repeat(1000) + "...");
    }
}

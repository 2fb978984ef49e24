//! Tokenizers from a folder in Hugging Face format.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Code, Error, Result};
use crate::tokenizer::Tokenizer;

/// The largest files that exist are below 40 MB; a cap, so that a wrong path does not fill memory.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The special tokens that templates get as variables.
const NAMES: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"];

pub fn open(directory: &Path) -> Result<Tokenizer> {
    let path = directory.join("tokenizer.json");
    let Some(json) = read(&path)? else {
        return Err(Error::new(
            Code::NotFound,
            format!("{}: no such file (a model folder must have tokenizer.json)", path.display()),
        ));
    };
    let inner: tokenizers::Tokenizer = serde_json::from_slice(&json)
        .map_err(|e| Error::invalid(format!("{}: {e}", path.display())))?;
    let config = read_object(&directory.join("tokenizer_config.json"))?;
    let map = read_object(&directory.join("special_tokens_map.json"))?;
    let mut special = Map::new();
    for name in NAMES {
        // tokenizer_config.json is what transformers loads today; the map is its older form.
        let token = [&config, &map].into_iter().find_map(|object| token_text(object.get(name)));
        if let Some(token) = token {
            special.insert(name.to_string(), Value::String(token.to_string()));
        }
    }
    let template = chat_template(directory, &config)?;
    Tokenizer::new(inner, special, template).map_err(|e| {
        Error::new(e.code, format!("{}: {}", directory.join("tokenizer.json").display(), e.message))
    })
}

/// A token is written as its text or as an object with `content`.
fn token_text(value: Option<&Value>) -> Option<&str> {
    match value? {
        Value::String(text) => Some(text),
        Value::Object(object) => object.get("content")?.as_str(),
        _ => None,
    }
}

/// chat_template.jinja, else `chat_template` in tokenizer_config.json: a text, or a list of named
/// ones of which "default" is taken.
fn chat_template(directory: &Path, config: &Map<String, Value>) -> Result<Option<String>> {
    let path = directory.join("chat_template.jinja");
    if let Some(bytes) = read(&path)? {
        return String::from_utf8(bytes)
            .map(Some)
            .map_err(|e| Error::invalid(format!("{}: {e}", path.display())));
    }
    match config.get("chat_template") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(Value::Array(list)) => {
            let default = list.iter().find(|entry| entry["name"] == "default");
            let text = default.and_then(|entry| entry["template"].as_str());
            text.map(|t| Some(t.to_string())).ok_or_else(|| {
                Error::invalid(format!(
                    "{}: chat_template is a list without an entry named \"default\"",
                    directory.join("tokenizer_config.json").display()
                ))
            })
        }
        Some(other) => Err(Error::invalid(format!(
            "{}: chat_template must be a text or a list, not {other}",
            directory.join("tokenizer_config.json").display()
        ))),
    }
}

fn read_object(path: &Path) -> Result<Map<String, Value>> {
    let Some(bytes) = read(path)? else {
        return Ok(Map::new());
    };
    serde_json::from_slice(&bytes).map_err(|e| Error::invalid(format!("{}: {e}", path.display())))
}

/// The file's bytes, or None where there is no such file. Symbolic links are followed.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let fail = |e: std::io::Error| Error::invalid(format!("{}: {e}", path.display()));
    let file = match File::open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(fail(e)),
    };
    let size = file.metadata().map_err(fail)?.len();
    if size > MAX_FILE_BYTES {
        return Err(Error::invalid(format!(
            "{}: {size} bytes; more than {MAX_FILE_BYTES} cannot be a tokenizer's file",
            path.display()
        )));
    }
    let mut bytes = Vec::with_capacity(size as usize);
    file.take(MAX_FILE_BYTES).read_to_end(&mut bytes).map_err(fail)?;
    Ok(Some(bytes))
}

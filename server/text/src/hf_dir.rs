//! Tokenizers from a folder in Hugging Face format.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Code, Error, Result};
use crate::tokenizer::{Templates, Tokenizer};

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
    let templates = chat_templates(directory, &config)?;
    Tokenizer::new(inner, None, special, templates).map_err(|e| {
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

/// From chat_template.jinja and additional_chat_templates/, where there is one; else from
/// `chat_template` in tokenizer_config.json, which is a text, or a list of named ones.
fn chat_templates(directory: &Path, config: &Map<String, Value>) -> Result<Templates> {
    let in_file = |name: &str| -> Result<Option<String>> {
        let path = directory.join(name);
        let text = read(&path)?.map(String::from_utf8).transpose();
        text.map_err(|e| Error::invalid(format!("{}: {e}", path.display())))
    };
    if let Some(default) = in_file("chat_template.jinja")? {
        let tool_use = in_file("additional_chat_templates/tool_use.jinja")?;
        return Ok(Templates { default: Some(default), tool_use });
    }
    let broken = |why: String| {
        let path = directory.join("tokenizer_config.json");
        Error::invalid(format!("{}: chat_template {why}", path.display()))
    };
    match config.get("chat_template") {
        None | Some(Value::Null) => Ok(Templates::default()),
        Some(Value::String(text)) => {
            Ok(Templates { default: Some(text.clone()), ..Templates::default() })
        }
        Some(Value::Array(list)) => {
            let named = |name: &str| {
                let entry = list.iter().find(|entry| entry["name"] == name);
                entry.and_then(|entry| entry["template"].as_str()).map(str::to_string)
            };
            let default = named("default");
            if default.is_none() {
                return Err(broken("is a list without an entry named \"default\"".to_string()));
            }
            Ok(Templates { default, tool_use: named("tool_use") })
        }
        Some(other) => Err(broken(format!("must be a text or a list, not {other}"))),
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

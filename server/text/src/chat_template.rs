//! Chat templates: Jinja as transformers sets it up, bounded.

use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value};
use serde_json::{Map, Value as Json};

use crate::error::{Code, Error, Result};
use crate::pyjson;
use crate::strftime::CivilTime;

/// Work that one rendering may do, in minijinja's unit: an instruction, or 64 bytes of text made.
/// About a quarter of a second, and 256 MB of intermediate text, at most.
const FUEL: u64 = 4_000_000;
/// Macro calls and includes within each other.
const MAX_RECURSION: usize = 200;
/// Far above what any context length can hold.
const MAX_OUTPUT_BYTES: usize = 32 << 20;
const MAX_SOURCE_BYTES: usize = 1 << 20;

/// Marks the end of the message to continue; unlike any text, and with a space at its end that
/// tells whether the template trims messages.
const CONTINUE_TAG: &str = "QUIRE_CONTINUES_THIS_MESSAGE ";

/// Names that the caller's own variables cannot take.
const RESERVED: [&str; 7] = [
    "messages",
    "tools",
    "documents",
    "add_generation_prompt",
    "continue_final_message",
    "raise_exception",
    "strftime_now",
];

/// Immutable after `compile`; safe to share between threads.
pub struct ChatTemplate {
    environment: Environment<'static>,
    special_tokens: Map<String, Json>,
}

/// A conversation to render; JSON texts, of which only `messages` must be there.
pub struct Chat<'a> {
    pub messages: &'a str,
    pub tools: Option<&'a str>,
    pub kwargs: Option<&'a str>,
    /// The clock of `strftime_now`, as 2025-07-04T09:05:03.
    pub now: &'a str,
    pub add_generation_prompt: bool,
    pub continue_final_message: bool,
}

/// What `raise_exception` was called with; travels as the source of minijinja's error.
#[derive(Debug)]
struct Raised(String);

impl std::fmt::Display for Raised {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raised {}

impl ChatTemplate {
    /// `special_tokens`: a JSON object of variables such as `bos_token`; a token may be its text or
    /// an object with `content`.
    pub fn compile(source: &str, special_tokens: &str) -> Result<ChatTemplate> {
        if source.len() > MAX_SOURCE_BYTES {
            return Err(Error::invalid(format!(
                "chat template of {} bytes; at most {MAX_SOURCE_BYTES} are accepted",
                source.len()
            )));
        }
        let mut special_tokens: Map<String, Json> = match special_tokens {
            "" => Map::new(),
            text => parse("special tokens", text)?,
        };
        for token in special_tokens.values_mut() {
            if let Some(content) = token.get_mut("content").map(Json::take) {
                *token = content;
            }
        }
        let syntax = SyntaxConfig::builder()
            .trim_blocks(true)
            .lstrip_blocks(true)
            .build()
            .map_err(|e| Error::new(Code::Internal, e.to_string()))?;
        let mut environment = Environment::new();
        environment.set_syntax(syntax);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(MAX_RECURSION);
        environment.add_filter("tojson", pyjson::tojson);
        environment.add_function("raise_exception", raise_exception);
        environment
            .add_template_owned("chat_template", without_generation_tags(source))
            .map_err(|e| Error::invalid(format!("chat template: {e}")))?;
        Ok(ChatTemplate { environment, special_tokens })
    }

    pub fn render(&self, chat: &Chat) -> Result<String> {
        let mut messages = parse_messages(chat.messages)?;
        let mut continued = None;
        if chat.continue_final_message {
            if chat.add_generation_prompt {
                return Err(Error::invalid(
                    "continue_final_message and add_generation_prompt exclude each other",
                ));
            }
            continued = Some(mark_end(&mut messages)?);
        }
        let tools = match chat.tools {
            None => Json::Null,
            Some(text) => parse("tools", text)?,
        };
        if !tools.is_null() && !tools.is_array() {
            return Err(Error::invalid(format!("tools: must be a JSON list, not {tools}")));
        }
        let mut variables = self.special_tokens.clone();
        variables.insert("documents".to_string(), Json::Null);
        if let Some(text) = chat.kwargs {
            let kwargs: Map<String, Json> = parse("template arguments", text)?;
            if let Some(name) = RESERVED.iter().find(|name| kwargs.contains_key(**name)) {
                return Err(Error::invalid(format!(
                    "template arguments: {name:?} cannot be set there"
                )));
            }
            variables.extend(kwargs);
        }
        variables.insert("messages".to_string(), Json::Array(messages));
        variables.insert("tools".to_string(), tools);
        variables.insert("add_generation_prompt".to_string(), chat.add_generation_prompt.into());
        let text = self.run(&variables, CivilTime::parse(chat.now)?)?;
        match continued {
            Some(message) => cut_at_end(text, &message),
            None => Ok(text),
        }
    }

    fn run(&self, variables: &Map<String, Json>, now: CivilTime) -> Result<String> {
        let clock = Value::from_function(move |format: &str| {
            now.format(format)
                .map_err(|e| minijinja::Error::new(ErrorKind::InvalidOperation, e.message))
        });
        let pairs = variables.iter().map(|(name, value)| (name.as_str(), to_value(value)));
        let context = Value::from_pairs(pairs.chain([("strftime_now", clock)]));
        let template = self.environment.get_template("chat_template").map_err(|e| explain(&e))?;
        let mut output = BoundedOutput::default();
        match template.render_captured_to(context, &mut output) {
            Ok(_) => String::from_utf8(output.bytes)
                .map_err(|e| Error::new(Code::Internal, format!("chat template: {e}"))),
            Err(_) if output.is_full => Err(Error::new(
                Code::Exhausted,
                format!("chat template made more than {MAX_OUTPUT_BYTES} bytes"),
            )),
            Err(e) => Err(explain(&e)),
        }
    }
}

/// Takes what a rendering writes, and ends it where that is too much: it must not be held first.
#[derive(Default)]
struct BoundedOutput {
    bytes: Vec<u8>,
    is_full: bool,
}

impl std::io::Write for BoundedOutput {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        if part.len() > MAX_OUTPUT_BYTES - self.bytes.len() {
            self.is_full = true;
            return Err(std::io::ErrorKind::OutOfMemory.into());
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn to_value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(b) => Value::from(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Value::from(i),
            (None, Some(u)) => Value::from(u),
            (None, None) => Value::from(n.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => items.iter().map(to_value).collect(),
        Json::Object(map) => Value::from_pairs(map.iter().map(|(k, v)| (k.as_str(), to_value(v)))),
    }
}

fn raise_exception(message: &str) -> std::result::Result<Value, minijinja::Error> {
    Err(minijinja::Error::new(ErrorKind::InvalidOperation, "raise_exception")
        .with_source(Raised(message.to_string())))
}

/// Errors of rendering, sorted by whose they are.
fn explain(error: &minijinja::Error) -> Error {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    let mut text = format!("chat template: {error}");
    while let Some(e) = cause {
        if let Some(raised) = e.downcast_ref::<Raised>() {
            return Error::new(Code::Raised, raised.0.clone());
        }
        if let Some(engine) = e.downcast_ref::<minijinja::Error>() {
            if engine.kind() == ErrorKind::OutOfFuel {
                return Error::new(Code::Exhausted, format!("{text}: more than {FUEL} steps"));
            }
            // The engine has no kind of its own for this one.
            if engine.detail() == Some("recursion limit exceeded") {
                return Error::new(Code::Exhausted, text);
            }
        }
        cause = e.source();
        if let Some(next) = cause {
            text.push_str(&format!(": {next}"));
        }
    }
    Error::new(Code::TemplateFault, text)
}

fn parse<T: serde::de::DeserializeOwned>(what: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|e| Error::invalid(format!("{what}: {e}")))
}

/// The messages as templates get them: keys without a value are left out, and reasoning goes by
/// each of the names that templates look for.
fn parse_messages(text: &str) -> Result<Vec<Json>> {
    let mut messages: Vec<Json> = parse("messages", text)?;
    if messages.is_empty() {
        return Err(Error::invalid("messages: the conversation is empty"));
    }
    for (i, message) in messages.iter_mut().enumerate() {
        let Json::Object(fields) = message else {
            return Err(Error::invalid(format!("messages: entry {i} is not an object")));
        };
        fields.retain(|_, value| !value.is_null());
        let reasoning = ["reasoning_content", "thinking", "reasoning"]
            .iter()
            .find_map(|name| fields.get(*name))
            .cloned();
        if let Some(reasoning) = reasoning {
            for name in ["reasoning_content", "thinking"] {
                fields.entry(name).or_insert_with(|| reasoning.clone());
            }
        }
    }
    Ok(messages)
}

/// Puts the tag after the last text of the last message and returns that text without it.
fn mark_end(messages: &mut [Json]) -> Result<String> {
    let content = messages.last_mut().and_then(|message| message.get_mut("content"));
    let text = match content {
        Some(Json::Array(parts)) => parts.iter_mut().rev().find_map(|part| part.get_mut("text")),
        other => other,
    };
    let Some(Json::String(text)) = text else {
        return Err(Error::invalid(
            "continue_final_message: the last message has no text to continue",
        ));
    };
    let message = text.clone();
    text.push_str(CONTINUE_TAG);
    Ok(message)
}

/// The rendered text up to the end of the continued message.
fn cut_at_end(mut text: String, message: &str) -> Result<String> {
    let end = text.rfind(CONTINUE_TAG.trim_end());
    let (Some(end), true) = (end, text.contains(message.trim())) else {
        return Err(Error::new(
            Code::TemplateFault,
            "continue_final_message: the chat template does not show the last message as it is",
        ));
    };
    // A template that trims messages has trimmed the tag, and would have trimmed the message.
    let trims = !text[end..].starts_with(CONTINUE_TAG);
    text.truncate(end);
    if trims {
        text.truncate(text.trim_end().len());
    }
    Ok(text)
}

/// `{% generation %}` marks the assistant's tokens for training; rendering only needs its scope,
/// which `with` has too. Comments, raw blocks and strings are left alone.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find('{') {
        let (before, tag) = rest.split_at(start);
        out.push_str(before);
        let length = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'{') => tag_length(tag, "}}"),
            Some(b'%') => tag_length(tag, "%}"),
            _ => 1,
        };
        let (tag, after) = tag.split_at(length);
        rest = after;
        let name = tag
            .strip_prefix("{%")
            .map(|inner| inner.trim_end_matches("%}").trim_matches(['-', '+']).trim());
        match name {
            Some("generation") => out.push_str(&tag.replace("generation", "with")),
            Some("endgeneration") => out.push_str(&tag.replace("endgeneration", "endwith")),
            Some("raw") => {
                let end = rest.find("endraw").unwrap_or(rest.len());
                out.push_str(tag);
                out.push_str(&rest[..end]);
                rest = &rest[end..];
            }
            _ => out.push_str(tag),
        }
    }
    out.push_str(rest);
    out
}

/// Bytes up to and with `close`, strings skipped; all of `tag` where it does not close.
fn tag_length(tag: &str, close: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for (i, c) in tag.char_indices().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if tag[i..].starts_with(close) => return i + close.len(),
            None => {}
        }
    }
    tag.len()
}

#[cfg(test)]
mod tests {
    use super::without_generation_tags;

    #[test]
    fn generation_tags_become_scopes_and_nothing_else_changes() {
        for (source, expect) in [
            ("a{% generation %}b{%- endgeneration -%}c", "a{% with %}b{%- endwith -%}c"),
            ("{# {% generation %} #}{{ '{% generation %}' }}", ""),
            (
                "{% raw %}{% generation %}{% endraw %}{%generation%}",
                "{% raw %}{% generation %}{% endraw %}{%with%}",
            ),
            ("{% set generation = 1 %}{{ generation }} { {", ""),
            ("{% if '%}' %}x", ""),
        ] {
            let expect = if expect.is_empty() { source } else { expect };
            assert_eq!(without_generation_tags(source), expect);
        }
    }
}

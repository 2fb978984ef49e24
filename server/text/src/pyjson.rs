//! Values as Python writes them: `json.dumps`, and the text of a float.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Deeper than any JSON text that is read (128), shallow enough for any thread's stack.
const MAX_DEPTH: usize = 160;

/// The arguments of `json.dumps` that templates use.
struct Style {
    ensure_ascii: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

/// The filter `tojson`: `json.dumps(x, ensure_ascii=False)`, without escapes for HTML.
pub fn tojson(
    state: &State,
    value: &Value,
    indent: Option<Value>,
    args: Kwargs,
) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => indent,
        None => args.get::<Option<Value>>("indent")?.unwrap_or_default(),
    };
    let indent = match indent.kind() {
        ValueKind::Undefined | ValueKind::None => None,
        ValueKind::String => Some(indent.to_string()),
        _ => Some(" ".repeat(usize::try_from(indent)?.min(64))),
    };
    let mut style = Style {
        ensure_ascii: args.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        item_separator: if indent.is_some() { "," } else { ", " }.to_string(),
        key_separator: ": ".to_string(),
        indent,
        sort_keys: args.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
    };
    if let Some(separators) = args.get::<Option<Value>>("separators")?.filter(|v| !v.is_none()) {
        style.item_separator = separators.get_item_by_index(0)?.to_string();
        style.key_separator = separators.get_item_by_index(1)?.to_string();
    }
    args.assert_all_used()?;
    let mut out = String::new();
    write_value(&mut out, value, &style, 0)?;
    // Writing walks the value: dearer than the copy that the engine charges for anyway.
    state.consume_fuel(out.len() as u64 / 8)?;
    Ok(Value::from(out))
}

fn write_value(out: &mut String, value: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    if depth > MAX_DEPTH {
        return Err(Error::new(
            ErrorKind::BadSerialization,
            format!("tojson: more than {MAX_DEPTH} levels, or a value inside itself"),
        ));
    }
    match value.kind() {
        ValueKind::None => out.push_str("null"),
        ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
        ValueKind::Number if value.is_integer() => out.push_str(&value.to_string()),
        ValueKind::Number => out.push_str(&float_text(f64::try_from(value.clone())?)),
        ValueKind::String => write_string(out, value.as_str().unwrap_or_default(), style),
        ValueKind::Seq | ValueKind::Iterable => {
            let mut items = value.try_iter()?.peekable();
            if items.peek().is_none() {
                out.push_str("[]");
                return Ok(());
            }
            out.push('[');
            for (i, item) in items.enumerate() {
                begin_item(out, style, depth + 1, i == 0);
                write_value(out, &item, style, depth + 1)?;
            }
            end_items(out, style, depth, ']');
        }
        ValueKind::Map => write_map(out, value, style, depth)?,
        kind => {
            return Err(Error::new(
                ErrorKind::BadSerialization,
                format!("a value of type {kind} is not JSON serializable"),
            ))
        }
    }
    Ok(())
}

fn write_map(out: &mut String, map: &Value, style: &Style, depth: usize) -> Result<(), Error> {
    let mut keys: Vec<Value> = map.try_iter()?.collect();
    if keys.is_empty() {
        out.push_str("{}");
        return Ok(());
    }
    if style.sort_keys {
        keys.sort();
    }
    out.push('{');
    for (i, key) in keys.iter().enumerate() {
        begin_item(out, style, depth + 1, i == 0);
        match key.kind() {
            ValueKind::String => write_string(out, key.as_str().unwrap_or_default(), style),
            _ => {
                let mut text = String::new();
                write_value(&mut text, key, style, 0)?;
                write_string(out, &text, style);
            }
        }
        out.push_str(&style.key_separator);
        write_value(out, &map.get_item(key)?, style, depth + 1)?;
    }
    end_items(out, style, depth, '}');
    Ok(())
}

fn begin_item(out: &mut String, style: &Style, depth: usize, first: bool) {
    if !first {
        out.push_str(&style.item_separator);
    }
    new_line(out, style, depth);
}

fn end_items(out: &mut String, style: &Style, depth: usize, close: char) {
    new_line(out, style, depth);
    out.push(close);
}

fn new_line(out: &mut String, style: &Style, depth: usize) {
    if let Some(indent) = &style.indent {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str(indent));
    }
}

fn write_string(out: &mut String, text: &str, style: &Style) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' || (style.ensure_ascii && !(' '..='~').contains(&c)) => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// Python's `repr(float)`: the shortest digits that give the same number, with an exponent where
/// the decimal point would lie outside of (-4, 16].
pub fn float_text(x: f64) -> String {
    if x.is_nan() {
        return "NaN".to_string();
    }
    if x.is_infinite() {
        return if x > 0.0 { "Infinity" } else { "-Infinity" }.to_string();
    }
    let scientific = format!("{x:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let plain = x.to_string();
        return if plain.contains('.') { plain } else { plain + ".0" };
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::float_text;

    #[test]
    fn floats_read_as_in_python() {
        for (x, text) in [
            (1.0, "1.0"),
            (-0.0, "-0.0"),
            (0.1, "0.1"),
            (1e-7, "1e-07"),
            (1.5e-5, "1.5e-05"),
            (0.0001, "0.0001"),
            (1e16, "1e+16"),
            (123456789012345680.0, "1.2345678901234568e+17"),
            (1e15, "1000000000000000.0"),
            (1e300, "1e+300"),
        ] {
            assert_eq!(float_text(x), text);
        }
    }
}

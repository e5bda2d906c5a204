//! What is taken out of texts before they are shown: passwords in addresses, and what is called a secret.
//!
//! Texts come from programs that print what they like, and from errors. What is taken out cannot be asked
//! for in another way. Headers of calls are not among them: their values are shown only where a list says so
//! (`observe::Record`). Of messages it is what their schema marks with `debug_redact`, too.

use serde_json::Value;
use tidewire_schema::{Kind, MessageType, Single};

/// A text without the passwords of addresses, nor values of what is called a secret (`token=…`, `password: …`).
pub(crate) fn text(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut is_value = false;
    for (index, word) in text.split(' ').enumerate() {
        if index > 0 {
            shown.push(' ');
        }
        // What stands behind a scheme is looked for below.
        let hidden = is_value && !word.is_empty() && !is_scheme(word);
        shown.push_str(&if hidden { HIDDEN.to_owned() } else { word_of(word) });
        is_value = word.strip_suffix(['=', ':']).is_some_and(is_secret);
    }
    after_bearer(shown)
}

/// Whether something is a secret by its name; one that names a file or a header is none.
pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_place = name.ends_with("_file") || name.ends_with("_header");
    !is_place && SECRETS.iter().any(|word| name.contains(word))
}

/// Whether a text has an address with a user and a password.
pub(crate) fn has_credential(text: &str) -> bool {
    password(text).is_some()
}

/// Takes out of the JSON of a message what its schema marks with `debug_redact`, and what is called a secret.
pub(crate) fn message(value: &mut Value, of: MessageType<'_>) {
    let Value::Object(fields) = value else { return free(value) };
    if of.full_name() == "google.protobuf.Any" {
        // What is in it may be of a schema that marks it.
        return hide(value);
    }
    for (name, value) in fields {
        match of.field(name) {
            Some(field) if field.is_redacted() || is_secret(field.name()) => hide(value),
            _ if is_secret(name) => hide(value),
            None => free(value),
            Some(field) => match (field.kind(), value) {
                (Kind::Map { value: one, .. }, Value::Object(entries)) => {
                    for (key, value) in entries {
                        if is_secret(key) { hide(value) } else { single(value, one) }
                    }
                }
                (Kind::List(one), Value::Array(values)) => {
                    values.iter_mut().for_each(|value| single(value, one));
                }
                (Kind::One(one), value) => single(value, one),
                (_, value) => hide(value),
            },
        }
    }
}

fn single(value: &mut Value, of: Single<'_>) {
    match of {
        Single::Message(of) => message(value, of),
        _ => free(value),
    }
}

/// JSON of which no schema says more.
fn free(value: &mut Value) {
    match value {
        Value::String(told) => *told = text(told),
        Value::Array(values) => values.iter_mut().for_each(free),
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_secret(name) { hide(value) } else { free(value) }
            }
        }
        _ => {}
    }
}

fn hide(value: &mut Value) {
    *value = Value::String(HIDDEN.to_owned());
}

fn word_of(word: &str) -> String {
    if let Some((begin, end)) = password(word) {
        return format!("{}{HIDDEN}{}", &word[..begin], text(&word[end..]));
    }
    for sign in ['=', ':'] {
        if let Some((name, value)) = word.split_once(sign)
            && is_secret(name)
            && !value.is_empty()
        {
            return format!("{name}{sign}{HIDDEN}");
        }
    }
    word.to_owned()
}

/// Where the credential of an address stands: between `://` and the last `@` before the path.
fn password(text: &str) -> Option<(usize, usize)> {
    let begin = text.find("://")? + 3;
    let authority = text[begin..].split(['/', '?', '#']).next().unwrap_or_default();
    let end = begin + authority.rfind('@')?;
    Some((begin, end))
}

/// Hides what stands behind `Bearer`, `Basic`.
fn after_bearer(text: String) -> String {
    let mut words = text.split(' ').peekable();
    if !words.clone().any(is_scheme) {
        return text;
    }
    let mut shown = Vec::new();
    while let Some(word) = words.next() {
        shown.push(word);
        if is_scheme(word) && words.next_if(|next| next.len() >= 8).is_some() {
            shown.push(HIDDEN);
        }
    }
    shown.join(" ")
}

fn is_scheme(word: &str) -> bool {
    ["bearer", "basic"].iter().any(|scheme| word.to_ascii_lowercase().ends_with(scheme))
}

const HIDDEN: &str = "***";
const SECRETS: [&str; 11] = [
    "token",
    "secret",
    "password",
    "passwd",
    "api_key",
    "api-key",
    "apikey",
    "authorization",
    "cookie",
    "credential",
    "private_key",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_taken_out_and_all_else_stays() {
        for (told, shown) in [
            ("started in 3 ms: ready", "started in 3 ms: ready"),
            ("cannot reach postgres://ada:hunter2@db/shop", "cannot reach postgres://***@db/shop"),
            ("postgres://a:b@c@db/shop?x=y@z", "postgres://***@db/shop?x=y@z"),
            ("https://db/a@b", "https://db/a@b"),
            ("token=hunter2 and TOKEN:hunter2", "token=*** and TOKEN:***"),
            ("client_secret=hunter2", "client_secret=***"),
            ("token_file=/run/token", "token_file=/run/token"),
            ("authorization: Bearer abcdefgh.ijk", "authorization: Bearer ***"),
            ("a basic fact", "a basic fact"),
            ("password: hunter2 for ada", "password: *** for ada"),
            ("amqp://u:p@h password=x", "amqp://***@h password=***"),
        ] {
            assert_eq!(text(told), shown);
        }
    }
}

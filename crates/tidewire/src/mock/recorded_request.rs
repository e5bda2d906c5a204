//! Which requests a recorded rule answers: exactly the one that was recorded, whatever its secrets.
//!
//! A request without a secret is compared as a whole. Else the conditions go down to each secret:
//! what holds none is compared by `equals`, what is not there is not to be there, lists and maps
//! have as many elements, and the secret itself is only to be there. Of a text with a secret in the
//! middle (`/page?token=…&b=2`) the rest is compared. No path leads into an `Any`, so one with a
//! secret in it is compared by `like`; of one whose type nobody knows only the type.

use bytes::Bytes;
use tidewire_schema::{Kind, MessageType, Schema, Single};
use tidewire_service::Method;
use tidewire_service::generated::serde_json::{Map, Value as Json, json};

use super::mask::{MASK, MaskedMessage};

/// The conditions of a request.
///
/// # Errors
/// When it has no JSON.
pub(super) fn when(schema: &Schema, method: &Method, requests: &[Bytes]) -> Result<Json, String> {
    let all: Result<Vec<_>, _> =
        requests.iter().map(|bytes| MaskedMessage::decode(schema, &method.input, bytes)).collect();
    let mut all = all?;
    let mut pairs = all.iter().zip(requests);
    if !pairs.all(|(one, bytes)| one.is_whole(schema, &method.input, bytes)) {
        tracing::warn!(
            "a request of {} has more than its JSON says, fields that the schema does not have or \
             -0: requests that differ only there count as one",
            method.path
        );
    }
    let streams = method.kind.client_streams();
    if all.iter().all(|one| one.whole == one.shown) {
        let mut wholes: Vec<_> = all.into_iter().map(|one| one.whole).collect();
        return Ok(match streams {
            true => json!({"request.items": {"equals": wholes}}),
            false => json!({"request": {"equals": wholes.pop().unwrap_or_else(|| json!({}))}}),
        });
    }
    let of = schema.message_type(&method.input).ok_or("its type is not known")?;
    let mut conditions = Conditions(Map::new());
    if streams {
        conditions.0.insert("request.count".to_owned(), all.len().into());
        for (index, one) in all.iter().enumerate() {
            let path = format!("request.items[{index}]");
            conditions.add(path, Pair::of(one), Kind::One(Single::Message(of)));
        }
    } else if let Some(one) = all.pop() {
        conditions.add("request".to_owned(), Pair::of(&one), Kind::One(Single::Message(of)));
    }
    Ok(Json::Object(conditions.0))
}

/// The same value as it is, and without its secrets.
#[derive(Clone, Copy)]
struct Pair<'a> {
    whole: &'a Json,
    shown: &'a Json,
}

impl<'a> Pair<'a> {
    const fn of(message: &'a MaskedMessage) -> Self {
        Self { whole: &message.whole, shown: &message.shown }
    }
}

/// What has to hold of a request, by path.
struct Conditions(Map<String, Json>);

impl Conditions {
    /// Adds what has to hold of a value.
    fn add(&mut self, path: String, pair: Pair<'_>, kind: Kind<'_>) {
        let Pair { whole, shown } = pair;
        if whole == shown {
            self.require(path, json!({"equals": whole}));
            return;
        }
        match (whole, shown, kind) {
            (Json::Object(whole), Json::Object(shown), Kind::One(Single::Message(of))) => {
                match of.full_name() {
                    name if JSON_TYPES.contains(&name) => {
                        self.entries(&path, whole, shown, kind);
                    }
                    "google.protobuf.Any" => self.require(path, json!({"like": shown})),
                    _ => self.fields(&path, whole, shown, of),
                }
            }
            (Json::Object(whole), Json::Object(shown), Kind::Map { value, .. }) => {
                self.entries(&path, whole, shown, Kind::One(value));
            }
            (Json::Array(whole), Json::Array(shown), _) => {
                let (one, size) = match kind {
                    Kind::List(one) => (Kind::One(one), json!({"len": whole.len()})),
                    // A list within a `Struct`, which has no length in rules.
                    other => (other, json!({"cel": format!("size(this) == {}", whole.len())})),
                };
                self.require(path.clone(), size);
                for (index, (whole, shown)) in whole.iter().zip(shown).enumerate() {
                    self.add(format!("{path}[{index}]"), Pair { whole, shown }, one);
                }
            }
            (Json::Object(whole), Json::String(_), Kind::One(Single::Message(of)))
                if of.full_name() == "google.protobuf.Any" && !is_known(whole, of) =>
            {
                let name = whole.get("@type").and_then(Json::as_str).unwrap_or_default();
                tracing::warn!(
                    "{path} holds a {name}, which the schema does not have: only its type is compared"
                );
                self.require(format!("{path}.type_url"), name.into());
            }
            (Json::String(_), Json::String(shown), _) if shown != MASK => {
                self.require(format!("{path}{}", text_within(kind)), around_secrets(shown));
            }
            _ => self.require(path, json!({"exists": true})),
        }
    }

    fn fields(
        &mut self,
        path: &str,
        whole: &Map<String, Json>,
        shown: &Map<String, Json>,
        of: MessageType<'_>,
    ) {
        for field in of.fields() {
            let name = field.json_name();
            let path = format!("{path}.{name}");
            match (whole.get(name), shown.get(name)) {
                (Some(whole), Some(shown)) => {
                    self.add(path, Pair { whole, shown }, field.kind());
                }
                _ => self.require(path, json!({"exists": false})),
            }
        }
    }

    fn entries(
        &mut self,
        path: &str,
        whole: &Map<String, Json>,
        shown: &Map<String, Json>,
        one: Kind<'_>,
    ) {
        let mut expression = format!("size(this) == {}", whole.len());
        for (key, whole) in whole {
            let Some(shown) = shown.get(key) else { continue };
            match below(path, key) {
                Some(path) => self.add(path, Pair { whole, shown }, one),
                None => expression += &format!(" && {} in this", Json::from(key.as_str())),
            }
        }
        self.require(path.to_owned(), json!({"cel": expression}));
    }

    fn require(&mut self, path: String, test: Json) {
        self.0.insert(path, test);
    }
}

/// Whether the schema has the type of what an `Any` holds.
fn is_known(any: &Map<String, Json>, of: MessageType<'_>) -> bool {
    let name = any.get("@type").and_then(Json::as_str).unwrap_or_default();
    of.sibling(name.rsplit('/').next().unwrap_or_default()).is_some()
}

/// The path of an entry of a map; `None` where no path can say its key.
fn below(path: &str, key: &str) -> Option<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    Some(match key {
        _ if !key.is_empty() && key.chars().all(is_name) => format!("{path}.{key}"),
        _ if !key.contains('"') => format!("{path}[\"{key}\"]"),
        _ if !key.contains('\'') => format!("{path}['{key}']"),
        _ => return None,
    })
}

/// Where the text is in a value that is one in JSON.
fn text_within(kind: Kind<'_>) -> &'static str {
    let Kind::One(Single::Message(of)) = kind else { return "" };
    match of.full_name() {
        "google.protobuf.StringValue" => ".value",
        name if JSON_TYPES.contains(&name) => ".string_value",
        _ => "",
    }
}

/// The types whose values are JSON.
const JSON_TYPES: [&str; 3] =
    ["google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"];

/// A text with anything in the place of its secrets.
fn around_secrets(shown: &str) -> Json {
    // A pattern has at most a million steps; a text of this length takes far fewer.
    if shown.len() > PATTERN_BYTES_MAX {
        return json!({"exists": true});
    }
    let mut pattern = String::from("^");
    for (index, part) in shown.split(MASK).enumerate() {
        if index > 0 {
            pattern.push_str("[^]*");
        }
        for c in part.chars() {
            if c.is_ascii_punctuation() {
                pattern.push('\\');
            }
            pattern.push(c);
        }
    }
    pattern.push('$');
    json!({"regex": pattern})
}

/// Longer texts with a secret in them are not compared.
const PATTERN_BYTES_MAX: usize = 16 << 10;

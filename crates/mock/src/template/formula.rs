//! Expressions of CEL in rules: over what a rule sees of a call, checked against the schema.
//!
//! | name | is |
//! |---|---|
//! | `request` | the message; of a method with a stream of requests `items`, `first`, `last`, `count` |
//! | `message` | of a bidirectional rule: the message that it answers |
//! | `metadata` | headers: text by name, several of one name joined with `, ` |
//! | `state`, `vars`, `attempt` | as in paths |
//! | `stream` | `index`, `total`, `isFirst`, `isLast` of the item that is made |
//! | `timeout_ms` | how many milliseconds the caller still waits; null without a deadline |
//! | `now` | the time of the call |
//! | `this` | only in the operator `cel`: what is at the path |
//!
//! The language and its bounds are those of validation rules; this crate evaluates nothing itself.

use serde_json::Value as Json;
use tidewire_schema::{Message, Schema, Value};
use tidewire_service::Method;
use tidewire_validate::{Expression, NameType, NameValue};

use crate::value::eval_context::{EvalContext, Request};
use crate::value::view::View;
use crate::value::view::plain_json;

/// An expression, or why there is none.
#[derive(Debug)]
pub(crate) enum Formula {
    Ready(Expression),
    Broken(String),
}

/// The names of all expressions but those of the operator `cel`.
const NAMES: [&str; 8] =
    ["request", "message", "metadata", "state", "vars", "attempt", "stream", "timeout_ms"];

impl Formula {
    /// An expression of a template of a method.
    pub(crate) fn new(schema: &Schema, method: &Method, text: &str) -> Self {
        let streams = method.kind.client_streams();
        let known = |name| match name {
            "request" if !streams => NameType::Message(&method.input),
            "message" if streams => NameType::Message(&method.input),
            "metadata" => NameType::Texts,
            "attempt" => NameType::Integer,
            _ => NameType::Unknown,
        };
        match Expression::compile(schema, &NAMES.map(|name| (name, known(name))), text) {
            Ok(expression) => Self::Ready(expression),
            Err(why) => Self::Broken(why),
        }
    }

    /// Whether what it gives may depend on what was called before.
    pub(crate) fn looks_back(&self) -> bool {
        match self {
            Self::Ready(expression) => {
                expression.mentions("state") || expression.mentions("attempt")
            }
            Self::Broken(_) => false,
        }
    }

    /// Its value for a call.
    ///
    /// # Errors
    /// Why it has none.
    pub(crate) fn value(
        &self,
        eval: &EvalContext<'_>,
        now_millis: u64,
        steps: &mut u64,
    ) -> Result<Json, String> {
        match self {
            Self::Ready(expression) => {
                let now = i128::from(now_millis) * 1_000_000;
                expression.evaluate(&mut |name| name_value(name, eval), now, steps)
            }
            Self::Broken(why) => Err(why.clone()),
        }
    }
}

fn name_value<'a>(name: &'static str, eval: &EvalContext<'a>) -> Option<NameValue<'a>> {
    let message = |message: &'a Message| NameValue::Message(message.as_ref());
    Some(match name {
        "request" => match eval.request {
            Request::One(one) => message(one),
            Request::Many(all) => {
                let mut members = vec![
                    ("items", NameValue::List(all.iter().map(message).collect())),
                    ("count", NameValue::Json(all.len().into())),
                ];
                members.extend(all.first().map(|first| ("first", message(first))));
                members.extend(all.last().map(|last| ("last", message(last))));
                NameValue::Members(members)
            }
        },
        "message" => message(eval.message?),
        "metadata" => {
            let names = eval.headers.keys().map(|name| {
                let text = eval.header(name.as_str()).text().into_owned();
                (name.as_str().to_owned(), Json::from(text))
            });
            NameValue::Json(Json::Object(names.collect()))
        }
        "state" => {
            let values = eval.state.iter().map(|(key, value)| (key.clone(), plain_json(value)));
            NameValue::Json(Json::Object(values.collect()))
        }
        "vars" => {
            NameValue::Json(eval.vars.map_or_else(|| Json::Object(Default::default()), plain_json))
        }
        "attempt" => NameValue::Json(eval.attempt.into()),
        "stream" => {
            let crate::value::eval_context::ItemIndex { index, total } = eval.item?;
            let json = serde_json::json!({
                "index": index,
                "total": total,
                "isFirst": index == 0,
                "isLast": index + 1 == total,
            });
            NameValue::Json(json)
        }
        "timeout_ms" => NameValue::Json(eval.timeout_ms.into()),
        _ => return None,
    })
}

/// What `this` is in the operator `cel`: of a value at a path.
pub(crate) fn this<'a>(view: &View<'a>, absent: &Json) -> NameValue<'a> {
    match view {
        View::Field(Value::Message(message)) => match crate::value::view::any_json(*message) {
            Some(json) => NameValue::Json(json),
            None => NameValue::Message(*message),
        },
        View::Field(Value::List(list)) => {
            NameValue::List(list.iter().map(|one| this(&View::Field(one), absent)).collect())
        }
        View::Messages(messages) => {
            NameValue::List(messages.iter().map(|one| NameValue::Message(one.as_ref())).collect())
        }
        other => NameValue::Json(json_of(other, absent)),
    }
}

fn json_of(view: &View<'_>, absent: &Json) -> Json {
    match view {
        View::Missing | View::Object => absent.clone(),
        View::Field(value) => match *value {
            Value::Bool(value) => value.into(),
            Value::I32(number) => number.into(),
            Value::I64(number) => number.into(),
            Value::U32(number) => number.into(),
            Value::U64(number) => number.into(),
            Value::F32(number) => number.into(),
            Value::F64(number) => number.into(),
            Value::Enum(value) => value.number().into(),
            Value::Map(map) => {
                let entries = map.iter().map(|(key, value)| {
                    (View::Field(key).text().into_owned(), json_of(&View::Field(value), absent))
                });
                Json::Object(entries.collect())
            }
            _ => view.text().into(),
        },
        View::Rule(node) => plain_json(node),
        View::Number(_) => view.number().map_or(Json::Null, |number| match number {
            crate::value::node::Number::Integer(integer) => {
                i64::try_from(integer).map_or(Json::Null, Json::from)
            }
            crate::value::node::Number::Float(float) => float.into(),
        }),
        View::Bool(value) => (*value).into(),
        View::Text(_) | View::Messages(_) => view.text().into(),
    }
}

//! `call`: a call of the program over its own listener, to its end or its first messages.

use serde_json::{Map, Value, json};
use tidewire_service::{Error, Result};

use crate::Tools;

pub(crate) const ABOUT: &str = "Calls a method of this program over its own listener, with the messages given, and answers what \
     comes back: headers, messages, trailers and how it ended. Of a stream the first 100 messages. \
     What a request looks like: method_describe, method_sample.";

const MESSAGES_MAX: usize = 100;

pub(crate) fn arguments() -> Map<String, Value> {
    let schema = json!({
        "type": "object",
        "properties": {
            "method": {"type": "string", "description": "shop.v1.Items/Get"},
            "messages": {
                "type": "array", "items": {"type": "object"},
                "description": "The messages to send, as JSON; one where the client does not stream.",
            },
            "headers": {"type": "object", "additionalProperties": {"type": "string"}},
            "protocol": {"enum": ["connect", "grpc", "grpc-web", "live"]},
            "timeoutMs": {"type": "integer", "minimum": 1, "maximum": 60000},
        },
        "required": ["method"],
        "additionalProperties": false,
    });
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

pub(crate) async fn run(tools: &Tools, mut given: Map<String, Value>) -> Result<Value> {
    let messages = match given.remove("messages") {
        None => vec![Value::String("{}".to_owned())],
        Some(Value::Array(messages)) => {
            messages.iter().map(|message| Value::String(message.to_string())).collect()
        }
        Some(_) => return Err(Error::invalid_argument("messages is a list of objects")),
    };
    given.insert("messages".to_owned(), Value::Array(messages));
    let timeout = given.entry("timeoutMs").or_insert(json!(10_000));
    if timeout.as_u64().is_none_or(|millis| !(1..=60_000).contains(&millis)) {
        return Err(Error::invalid_argument("timeoutMs is a number from 1 to 60000"));
    }
    let opened = tools.call("Services/Open", given).await?;
    let call = opened["call"].clone();
    let named = || Map::from_iter([("call".to_owned(), call.clone())]);
    tools.call("Services/CloseSend", named()).await?;
    let mut events = Vec::new();
    let mut after = Value::from(0);
    loop {
        let mut request = named();
        request.insert("after".to_owned(), after.clone());
        let received = match tools.call("Services/Receive", request).await {
            Ok(received) => received,
            Err(error) => {
                // What goes on unread would take a place of the few that there are.
                let _ = tools.call("Services/Cancel", named()).await;
                return Err(error);
            }
        };
        for event in received["events"].as_array().into_iter().flatten() {
            after = event["number"].clone();
            events.push(readable(event));
        }
        if received["ended"] == true {
            return Ok(json!({"events": events}));
        }
        if events.len() >= MESSAGES_MAX {
            tools.call("Services/Cancel", named()).await?;
            return Ok(json!({"events": events, "more": true}));
        }
    }
}

/// An event whose message is JSON and not a text of JSON.
fn readable(event: &Value) -> Value {
    let mut event = event.clone();
    let message =
        event["message"].as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    if let Some(message) = message {
        event["message"] = message;
    }
    event
}

//! Messages of calls as they are shown, while they are captured: JSON by their schema, without
//! secrets.
//!
//! A message is made into text as it goes by, and nothing but that text is kept: what a schema
//! marks with `debug_redact`, and what is called a secret, is taken out before. What cannot be read
//! by its schema is not shown, since nobody knows what is in it.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;
use tidewire_schema::Schema;
use tidewire_server::Handle;
use tidewire_service::{Codec, Side};
use tidewire_telemetry::ShowMessage;

use crate::redact;

/// What makes messages of the services of a server into text, as they are served now.
pub(crate) fn show(handle: &Handle) -> ShowMessage {
    let schemas = schemas(handle);
    std::sync::Arc::new(move |method, side, codec, message| {
        let type_name = match side {
            Side::Request => &method.input,
            Side::Reply => &method.output,
        };
        match schemas.get(&*method.service) {
            Some(schema) => render(schema, type_name, codec, message),
            None => "(not shown: its schema is not known)".to_owned(),
        }
    })
}

/// Schemas by service; services with the same descriptors share one.
fn schemas(handle: &Handle) -> HashMap<String, Schema> {
    let mut known: Vec<(Bytes, Option<Schema>)> = Vec::new();
    let mut schemas = HashMap::new();
    for interface in handle.interfaces() {
        let descriptors = interface.descriptors();
        let at = known.iter().position(|(of, _)| of == descriptors).unwrap_or_else(|| {
            known.push((descriptors.clone(), Schema::from_descriptors(descriptors.clone()).ok()));
            known.len() - 1
        });
        if let Some(schema) = &known[at].1 {
            schemas.insert(interface.name().to_owned(), schema.clone());
        }
    }
    schemas
}

fn render(schema: &Schema, type_name: &str, codec: Codec, message: &[u8]) -> String {
    let bytes = message.len();
    if bytes > MESSAGE_BYTES_MAX {
        return format!("(not shown: {bytes} bytes)");
    }
    let value = schema.decode(type_name, codec, message).ok().and_then(|message| {
        let mut value: Value = serde_json::from_slice(&message.encode(Codec::Json).ok()?).ok()?;
        redact::message(&mut value, message.message_type());
        Some(value)
    });
    value.map_or_else(
        || format!("(not shown: {bytes} bytes that do not decode as {type_name})"),
        |value| value.to_string(),
    )
}

/// Messages that are larger are not looked into.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use tidewire_schema::Sources;

    const SHOP: &str = r#"
        syntax = "proto3";
        package shop.v1;
        import "google/protobuf/any.proto";
        import "google/protobuf/struct.proto";
        message Card { string number = 1 [debug_redact = true]; string name = 2; }
        message Order {
          Card card = 1;
          repeated Card cards = 2;
          map<string, Card> by_name = 3;
          map<string, string> extra = 4;
          string session_token = 5;
          google.protobuf.Struct more = 6;
          google.protobuf.Any any = 7;
          bytes blob = 8 [debug_redact = true];
          string note = 9;
          repeated string password = 10;
          Order within = 11;
          string jwt = 12;
          string otp = 13;
          string ssh_key = 14;
          string auth = 15;
          string pin_code = 16;
          string credit_card = 17;
          string signature = 18;
        }
    "#;

    #[test]
    fn what_a_schema_marks_and_what_is_called_a_secret_is_not_in_the_text() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
        let schema = Schema::compile(&Sources::new().folder(folder.path())).unwrap();
        let card = serde_json::json!({ "number": "hunter2", "name": "Ada" });
        let order = serde_json::json!({
            "card": card,
            "cards": [card, card],
            "byName": { "mine": card },
            "extra": { "api_key": "hunter2", "colour": "red" },
            "sessionToken": "hunter2",
            "more": { "deep": [{ "apiKey": "hunter2" }], "size": 3, "password": { "a": "hunter2" } },
            "any": { "@type": "type.googleapis.com/shop.v1.Card", "number": "hunter2" },
            "blob": "aHVudGVyMg==",
            "note": "at amqp://ada:hunter2@mq with authorization: Bearer hunter2hunter2",
            "password": ["hunter2"],
            "within": { "card": card },
            "jwt": "hunter2",
            "otp": "hunter2",
            "sshKey": "hunter2",
            "auth": "hunter2",
            "pinCode": "hunter2",
            "creditCard": "hunter2",
            "signature": "hunter2",
        });
        let message = schema.from_json("shop.v1.Order", &order).unwrap();
        for codec in [Codec::Json, Codec::Proto] {
            let text = render(&schema, "shop.v1.Order", codec, &message.encode(codec).unwrap());
            assert!(!text.contains("hunter2") && !text.contains("aHVudGVy"), "{text}");
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(value["cards"][1]["name"], "Ada");
            assert_eq!(value["extra"]["colour"], "red");
            assert_eq!(value["more"]["size"], 3.0);
            assert_eq!(value["within"]["card"]["number"], "***");
        }
        for (bytes, codec) in [(&b"hunter2"[..], Codec::Proto), (b"{\"hunter2\":", Codec::Json)] {
            let text = render(&schema, "shop.v1.Order", codec, bytes);
            assert!(text.starts_with("(not shown") && !text.contains("hunter2"), "{text}");
        }
        let large = vec![b' '; MESSAGE_BYTES_MAX + 1];
        assert_eq!(
            render(&schema, "shop.v1.Order", Codec::Json, &large),
            "(not shown: 65537 bytes)"
        );
    }
}

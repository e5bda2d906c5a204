//! Messages of edition 2023, whose schema was read as text: presence, encodings, open and closed
//! enums are what their features say.

use serde_json::json;
use tidewire_service::Codec;

use crate::{compiled, text};

const SHOP: &str = r#"
edition = "2023";
package shop.v1;
message Item {
  int32 explicit = 1;
  int32 implicit = 2 [features.field_presence = IMPLICIT];
  repeated int32 packed = 3;
  repeated int32 expanded = 4 [features.repeated_field_encoding = EXPANDED];
  Item inner = 5;
  Item delimited = 6 [features.message_encoding = DELIMITED];
  Open open = 7;
  Closed closed = 8;
  string checked = 9;
  string unchecked = 10 [features.utf8_validation = NONE];
  int32 rank = 11 [default = 7];
}
enum Open { OPEN_NONE = 0; OPEN_ONE = 1; }
enum Closed { option features.enum_type = CLOSED; CLOSED_ONE = 1; }
"#;

#[test]
fn presence_is_what_the_feature_says() {
    let schema = compiled(SHOP);
    let item = schema.message_type("shop.v1.Item").unwrap();
    let presence = |name: &str| item.field(name).unwrap().has_presence();
    assert!(presence("explicit") && presence("inner") && presence("closed"));
    assert!(!presence("implicit"));
    assert_eq!(item.field("rank").unwrap().declared_default(), Some("7"));
    let made = schema.from_json("shop.v1.Item", &json!({"explicit": 0, "implicit": 0})).unwrap();
    assert_eq!(made.encode(Codec::Proto).unwrap(), [8, 0][..]);
    assert!(text(&made).contains(r#""explicit":0"#), "{}", text(&made));
}

#[test]
fn encodings_are_what_the_features_say() {
    let schema = compiled(SHOP);
    let encoded = |json| {
        let made = schema.from_json("shop.v1.Item", &json).unwrap();
        let bytes = made.encode(Codec::Proto).unwrap();
        let again = schema.decode("shop.v1.Item", Codec::Proto, &bytes).unwrap();
        assert_eq!(text(&again), text(&made));
        bytes
    };
    assert_eq!(encoded(json!({"packed": [1, 2]})), [0x1a, 2, 1, 2][..]);
    assert_eq!(encoded(json!({"expanded": [1, 2]})), [0x20, 1, 0x20, 2][..]);
    assert_eq!(encoded(json!({"inner": {"explicit": 3}})), [0x2a, 2, 8, 3][..]);
    // A group: it begins with one tag and ends with another.
    assert_eq!(encoded(json!({"delimited": {"explicit": 3}})), [0x33, 8, 3, 0x34][..]);
}

#[test]
fn enums_are_open_or_closed_and_texts_are_checked_or_not() {
    let schema = compiled(SHOP);
    assert!(!schema.enum_type("shop.v1.Open").unwrap().is_closed());
    assert!(schema.enum_type("shop.v1.Closed").unwrap().is_closed());
    let decode = |bytes: &[u8]| schema.decode("shop.v1.Item", Codec::Proto, bytes);
    assert!(decode(&[0x4a, 1, 0xff]).is_err());
    assert!(decode(&[0x38, 9]).is_ok());
}

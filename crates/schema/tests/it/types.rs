//! What is known of types.

use tidewire_schema::{Kind, Scalar, Schema, Single};

use crate::{compiled, schema};

#[test]
fn fields_have_names_kinds_oneofs_and_presence() {
    let schema = schema();
    let item = schema.message_type("shop.v1.Item").unwrap();
    let field = |name| item.field(name).unwrap();
    assert_eq!(field("firstName").name(), "first_name");
    assert_eq!((field("made_at").json_name(), field("made_at").number()), ("madeAt", 14));
    assert!(matches!(field("count").kind(), Kind::One(Single::Scalar(Scalar::Int64))));
    assert!(matches!(field("items").kind(), Kind::List(Single::Message(m)) if m == item));
    let Kind::Map { key, value: Single::Message(part) } = field("parts").kind() else {
        panic!("it is a map of messages")
    };
    assert_eq!((key.as_str(), part.full_name()), ("int32", "shop.v1.Item"));
    assert!(field("size").has_presence() && !field("count").has_presence());
    assert!(field("size").oneof().is_none(), "a oneof that stands for `optional` is none");
    assert_eq!(field("code").oneof().unwrap().name(), "origin");
    let members: Vec<_> =
        item.oneofs().flat_map(|oneof| oneof.fields()).map(|f| f.name()).collect();
    assert_eq!(members, ["country", "parent", "code"]);
    assert_eq!(item.fields().count(), 26);
    assert!(item.field("nothing").is_none() && schema.message_type("shop.v1.No").is_none());
}

#[test]
fn enums_have_names_numbers_and_openness() {
    let schema = schema();
    let color = schema.enum_type("shop.v1.Color").unwrap();
    let values: Vec<_> = color.values().collect();
    assert_eq!(values, [("COLOR_NONE", 0), ("COLOR_RED", 1), ("COLOR_GREEN", 2)]);
    assert_eq!((color.name_of(2), color.number_of("COLOR_RED")), (Some("COLOR_GREEN"), Some(1)));
    assert!(!color.is_closed());
    let old = r#"syntax = "proto2"; enum E { A = 0; } message M { required E e = 1; extensions 100 to 200; }
        extend M { optional string note = 100; }"#;
    let old = compiled(old);
    assert!(old.enum_type("E").unwrap().is_closed());
    let message = old.message_type("M").unwrap();
    assert!(message.field("e").unwrap().is_required());
    assert_eq!(message.extensions().map(|field| field.json_name()).collect::<Vec<_>>(), ["[note]"]);
    let mut message = old.message("M").unwrap();
    message.set("[note]", "x").unwrap();
    message.set("e", "A").unwrap();
    assert_eq!(crate::text(&message), r#"{"e":"A","[note]":"x"}"#);
}

#[test]
fn comments_of_messages_and_fields_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let proto = "syntax = \"proto3\";\npackage a.b;\n// An order.\nmessage Order {\n  // A line of it.\n  message Line {\n    // How many.\n    int32 count = 4;\n  }\n  Line line = 1;\n}\n";
    std::fs::write(folder.path().join("a.proto"), proto).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let order = schema.message_type("a.b.Order").unwrap();
    let line = schema.message_type("a.b.Order.Line").unwrap();
    assert_eq!(order.comment(), Some("An order."));
    assert_eq!(line.comment(), Some("A line of it."));
    assert_eq!(line.field("count").unwrap().comment(), Some("How many."));
    assert_eq!(order.field("line").unwrap().comment(), None);
}

#[test]
fn defaults_are_as_the_proto_declares_them() {
    let old = r#"syntax = "proto2"; package a; enum E { A = 0; B = 1; }
        message Outer { message M {
            optional int32 count = 3 [default = -7];
            optional string name = 1 [default = "tea \"x\""];
            optional E e = 2 [default = B];
            optional double ratio = 4 [default = inf];
            optional bool on = 5 [default = true];
            optional bytes data = 6 [default = "\001a"];
            optional int32 none = 7;
            extensions 100 to 200;
        } }
        extend Outer.M { optional int32 more = 100 [default = 3]; }"#;
    let old = compiled(old);
    let message = old.message_type("a.Outer.M").unwrap();
    let default = |name| message.field(name).unwrap().declared_default();
    let all = ["name", "e", "count", "ratio", "on", "data", "none", "[a.more]"].map(default);
    let expected = ["tea \"x\"", "B", "-7", "inf", "true", "\\001a"].map(Some);
    assert_eq!((&all[..6], &all[6..]), (&expected[..], &[None, None][..]));
    assert!(old.message("a.Outer.M").unwrap().get("count").unwrap().is_none(), "it is absent");
}

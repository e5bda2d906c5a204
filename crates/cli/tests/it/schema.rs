//! `tidewire list` and `tidewire describe` of `.proto` files.

use crate::program::{folder, run};

pub(crate) const SHOP: &str = r#"syntax = "proto3";
package shop.v1;
import "google/api/annotations.proto";
import "google/protobuf/timestamp.proto";
// Items of the shop.
service Items {
  // Get finds one.
  rpc Get(GetRequest) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/items/{id}" additional_bindings { put: "/x" body: "*" } };
  }
  rpc Follow(stream GetRequest) returns (stream Item);
}
message GetRequest { string id = 1; }
// An item.
message Item {
  // What it is called.
  string name = 1;
  int64 count = 2;
  repeated Item parts = 3;
  map<string, int32> sizes = 4;
  google.protobuf.Timestamp made = 5;
  Color color = 6;
  optional bool sold = 7;
  oneof price { double euros = 8; string other = 9; }
  bytes old = 10 [deprecated = true];
  // Of its own.
  message Note { string text = 1; }
  Note note = 11;
}
enum Color { COLOR_UNSPECIFIED = 0; COLOR_RED = 1; }
"#;

#[test]
fn services_and_methods_are_listed() {
    let folder = folder(&[("protos/shop.proto", SHOP)]);
    let all = run(folder.path(), &["list", "protos"]);
    assert_eq!((all.code, all.stdout.as_str()), (0, "shop.v1.Items\n"));
    let one = run(folder.path(), &["list", "protos", "Items"]);
    assert_eq!(one.stdout, "shop.v1.Items/Get\nshop.v1.Items/Follow\n");
    run(folder.path(), &["list", "protos", "Itms"])
        .check(2, &["has no service Itms; did you mean shop.v1.Items?"]);
    run(folder.path(), &["list", "none"]).check(2, &["none"]);
}

#[test]
fn a_list_as_json_and_a_descriptor_set_are_for_other_programs() {
    let folder = folder(&[("protos/shop.proto", SHOP)]);
    let listed = run(folder.path(), &["list", "protos", "--json"]);
    let service: serde_json::Value = serde_json::from_str(listed.stdout.trim()).unwrap();
    assert_eq!(service["service"], "shop.v1.Items");
    let follow = serde_json::json!({
        "method": "shop.v1.Items/Follow", "request": "shop.v1.GetRequest",
        "reply": "shop.v1.Item", "clientStreams": true, "serverStreams": true,
    });
    assert_eq!(service["methods"][1], follow);
    let written = run(folder.path(), &["describe", "protos", "--descriptor-set-out", "shop.binpb"]);
    assert_eq!((written.code, written.stdout.as_str()), (0, ""));
    run(folder.path(), &["list", "shop.binpb", "Items"]).check(0, &["shop.v1.Items/Follow"]);
    run(folder.path(), &["describe", "shop.binpb", "--descriptor-set-out", "no/shop.binpb"])
        .check(1, &["cannot write no/shop.binpb"]);
}

#[test]
fn a_service_is_described_as_it_is_written() {
    let folder = folder(&[("protos/shop.proto", SHOP)]);
    let service = run(folder.path(), &["describe", "protos", "Items"]);
    assert_eq!(
        service.stdout,
        r#"package shop.v1;

// Items of the shop.
service Items {
  // Get finds one.
  rpc Get(GetRequest) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/items/{id}" additional_bindings { put: "/x" body: "*" } };
  }
  rpc Follow(stream GetRequest) returns (stream Item);
}
"#
    );
}

#[test]
fn a_message_is_described_with_a_template() {
    let folder = folder(&[("protos/shop.proto", SHOP)]);
    let message = run(folder.path(), &["describe", "protos", "shop.v1.Item"]);
    assert_eq!(
        message.stdout,
        r#"// An item.
message Item {
  // Of its own.
  message Note {
    string text = 1;
  }
  // What it is called.
  string name = 1;
  int64 count = 2;
  repeated Item parts = 3;
  map<string, int32> sizes = 4;
  google.protobuf.Timestamp made = 5;
  Color color = 6;
  optional bool sold = 7;
  oneof price {
    double euros = 8;
    string other = 9;
  }
  bytes old = 10 [deprecated = true];
  Item.Note note = 11;
}

enum Color {
  COLOR_UNSPECIFIED = 0;
  COLOR_RED = 1;
}

{
  "name": "",
  "count": "0",
  "parts": [],
  "sizes": {
    "key": 0
  },
  "made": "1970-01-01T00:00:00Z",
  "color": "COLOR_UNSPECIFIED",
  "sold": false,
  "euros": 0.0,
  "old": "",
  "note": {
    "text": ""
  }
}
"#
    );
}

#[test]
fn a_method_is_described_with_its_messages_and_a_request_to_fill_in() {
    let folder = folder(&[("protos/shop.proto", SHOP)]);
    let method = run(folder.path(), &["describe", "protos", "Items/Get"]);
    method.check(
        0,
        &[
            "// Get finds one.\nrpc Get(GetRequest) returns (Item) {",
            "\nmessage GetRequest {\n  string id = 1;\n}\n",
            "\nmessage Item {",
            "\n}\n\nenum Color {\n  COLOR_UNSPECIFIED = 0;\n  COLOR_RED = 1;\n}\n",
            "\ntidewire call URL shop.v1.Items/Get '{\"id\":\"\"}'\n",
        ],
    );
    let request = run(folder.path(), &["describe", "--request", "protos", "Items/Get"]);
    assert_eq!(request.stdout, "{\"id\":\"\"}\n");
    run(folder.path(), &["describe", "protos", "Color"])
        .check(0, &["enum Color {\n  COLOR_UNSPECIFIED = 0;\n  COLOR_RED = 1;\n}\n"]);
    run(folder.path(), &["describe", "protos", "Itme"]).check(2, &["did you mean shop.v1.Item?"]);
}

#[test]
fn a_schema_that_takes_more_memory_than_the_library_expects_is_listed() {
    let folder = folder(&[("shop.proto", SHOP)]);
    let sources = tidewire::schema::Sources::new().file(folder.path().join("shop.proto"));
    let mut set = sources.compile().unwrap().bytes();
    // Places of comments take two bytes each as they are written, and over a hundred in memory.
    let mut file = b"\x0a\x0blarge.proto\x4a".to_vec();
    let places = [0x0a, 0x00].repeat(400_000);
    push_length(&mut file, places.len());
    file.extend(places);
    set.push(0x0a);
    push_length(&mut set, file.len());
    set.extend(file);
    std::fs::write(folder.path().join("large.binpb"), set).unwrap();
    run(folder.path(), &["list", "large.binpb"]).check(0, &["shop.v1.Items\n"]);
}

/// A length as protobuf has it.
fn push_length(to: &mut Vec<u8>, mut length: usize) {
    while length > 0x7f {
        to.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    to.push(u8::try_from(length).unwrap());
}

#[test]
fn imports_that_are_built_in_are_written_for_other_tools() {
    let folder = folder(&[("shop.proto", SHOP)]);
    let export = || run(folder.path(), &["proto", "export", "a/imports"]);
    export().check(0, &["wrote 7 files into a/imports"]);
    let annotations = folder.path().join("a/imports/google/api/annotations.proto");
    let text = std::fs::read_to_string(&annotations).unwrap();
    assert!(text.contains("extend google.protobuf.MethodOptions"), "{text}");
    export().check(0, &["wrote 7 files"]);
    std::fs::write(&annotations, "// my own").unwrap();
    export().check(1, &["annotations.proto is there and differs"]);
    assert_eq!(std::fs::read_to_string(&annotations).unwrap(), "// my own");
    run(folder.path(), &["proto", "export", "shop.proto"]).check(1, &["cannot make shop.proto"]);
}

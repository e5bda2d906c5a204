//! Schemas and messages that are known only at run time.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "helpers of tests are tests")]

mod canonical;
mod compare;
mod dispatch;
mod editions;
mod fields;
mod hostile;
mod json;
mod types;

use std::sync::LazyLock;

use tidewire_schema::{Message, Schema, Sources};

const SHOP: &str = r#"
syntax = "proto3";
package shop.v1;
import "google/protobuf/any.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/field_mask.proto";
import "google/protobuf/struct.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";

enum Color { COLOR_NONE = 0; COLOR_RED = 1; COLOR_GREEN = 2; }

message Item {
  string name = 1;
  int64 count = 2;
  float price = 3;
  Color color = 4;
  bytes key = 5;
  optional int32 size = 6;
  repeated string tags = 7;
  map<string, string> labels = 8;
  map<int32, Item> parts = 9;
  repeated Item items = 10;
  oneof origin {
    string country = 11;
    Item parent = 12;
    int32 code = 13;
  }
  google.protobuf.Timestamp made_at = 14;
  google.protobuf.Duration age = 15;
  google.protobuf.Struct notes = 16;
  google.protobuf.Value any_json = 17;
  google.protobuf.Int64Value maybe = 18;
  google.protobuf.FieldMask mask = 19;
  google.protobuf.Any extra = 20;
  double weight = 21;
  uint64 serial = 22;
  bool sold = 23;
  repeated Color colors = 24;
  string first_name = 25;
  map<bool, int32> flags = 26;
}

message Found { string name = 1; string count = 2; Item best = 3; }

service Items {
  rpc Put(Item) returns (Item);
  rpc Find(Item) returns (Found) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Watch(Item) returns (stream Item);
  rpc Load(stream Item) returns (Item);
  rpc Talk(stream Item) returns (stream Item);
}
"#;

fn schema() -> Schema {
    static SCHEMA: LazyLock<Schema> = LazyLock::new(|| compiled(SHOP));
    SCHEMA.clone()
}

fn compiled(proto: &str) -> Schema {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), proto).unwrap();
    Schema::compile(&Sources::new().folder(folder.path())).unwrap()
}

/// An item of JSON.
fn item(json: serde_json::Value) -> Message {
    schema().from_json("shop.v1.Item", &json).unwrap()
}

/// The JSON text of a message.
fn text(message: &Message) -> String {
    String::from_utf8(message.encode(tidewire_service::Codec::Json).unwrap().to_vec()).unwrap()
}

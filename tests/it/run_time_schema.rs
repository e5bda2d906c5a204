//! A service that is known only at run time, served over every protocol.

use tidewire::schema::SchemaError;
use tidewire::{Echo, Schema, Server};
use tidewire_tests::program::{root, succeed, tool};

use crate::harness::{send, start};

const SHOP: &str = r#"
syntax = "proto3";
package shop.v1;
service Items {
  rpc Put(Item) returns (Item);
  rpc Find(Item) returns (Found) { option idempotency_level = NO_SIDE_EFFECTS; }
  rpc Follow(stream Item) returns (stream Found);
}
message Item { string name = 1; int64 count = 2; repeated string tags = 3; }
message Found { string name = 1; string count = 2; Item best = 3; }
"#;

fn schema() -> Schema {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
    Schema::from_folder(folder.path()).unwrap()
}

fn server(schema: &Schema) -> tidewire::Builder {
    Server::builder().service(schema.implement("shop.v1.Items", Echo::new(schema)).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_echo_over_a_loaded_schema_answers_every_protocol() {
    let schema = schema();
    let (_running, address) = start(server(&schema)).await;
    let json = |path: &str| format!("POST /shop.v1.Items/{path}\ncontent-type: application/json");
    let put = send(address, &json("Put"), br#"{"name":"tea","count":"7"}"#).await;
    put.check(200, &[r#"{"name":"tea","count":"7"}"#]);
    // `count` is text in the reply, and JSON writes an int64 as text; `tags` the reply lacks.
    let find = send(address, &json("Find"), br#"{"name":"tea","count":7,"tags":["x"]}"#).await;
    find.check(200, &[r#"{"name":"tea","count":"7"}"#]);
    let get = "GET /shop.v1.Items/Find?connect=v1&encoding=json&message=%7B%22name%22%3A%22a%22%7D";
    send(address, get, b"").await.check(200, &[r#"{"name":"a"}"#]);
    let proto = "POST /shop.v1.Items/Put\ncontent-type: application/proto";
    assert_eq!(send(address, proto, b"\x0a\x03tea").await.body, b"\x0a\x03tea");
    let web = "POST /shop.v1.Items/Put\ncontent-type: application/grpc-web+proto";
    let reply = send(address, web, b"\0\0\0\0\x05\x0a\x03tea").await;
    assert!(reply.body.starts_with(b"\0\0\0\0\x05\x0a\x03tea"), "{:?}", reply.body);

    let address = address.to_string();
    let follow = ["-plaintext", "-d", r#"{"name":"a"}{"name":"b"}"#, &address];
    let follow = [&follow[..], &["shop.v1.Items/Follow"]].concat();
    let replies = succeed(tool("grpcurl"), &follow).await;
    assert_eq!(replies.split_whitespace().collect::<String>(), r#"{"name":"a"}{"name":"b"}"#);
}

/// A descriptor set with what a field of bytes adds to it.
fn with_field(mut set: Vec<u8>, number: u8, content: &[u8]) -> Vec<u8> {
    set.push(number << 3 | 2);
    let mut length = content.len();
    while length > 0x7f {
        set.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    set.push(u8::try_from(length).unwrap());
    set.extend_from_slice(content);
    set
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_that_takes_more_memory_than_the_library_expects_is_served() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
    let small = tidewire::schema::Sources::new().folder(folder.path()).compile().unwrap().bytes();
    // Places of comments take two bytes each as they are written, and over a hundred in memory.
    let places = [0x0a, 0x00].repeat(400_000);
    let file = with_field(with_field(Vec::new(), 1, b"large.proto"), 9, &places);
    let large = with_field(small.to_vec(), 1, &file);
    let schema = Schema::from_descriptors(large.clone()).unwrap();
    let (_running, address) = start(server(&schema)).await;
    let put = "POST /shop.v1.Items/Put\ncontent-type: application/json";
    send(address, put, br#"{"name":"tea"}"#).await.check(200, &[r#"{"name":"tea"}"#]);
    let address = address.to_string();
    let described = ["-plaintext", &address, "describe", "shop.v1.Item"];
    assert!(succeed(tool("grpcurl"), &described).await.contains("int64 count = 2;"));
}

#[tokio::test]
async fn bad_requests_name_the_field() {
    let schema = schema();
    let (_running, address) = start(server(&schema)).await;
    let head = "POST /shop.v1.Items/Put\ncontent-type: application/json";
    send(address, head, br#"{"tags":["a",{}]}"#).await.check(400, &["field tags[1]"]);
    send(address, head, b"{").await.check(400, &["not valid JSON"]);
}

#[test]
fn a_fault_in_a_proto_names_file_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let text = "syntax = \"proto3\";\nmessage A {\n  Missing b = 1;\n}\n";
    std::fs::write(folder.path().join("a.proto"), text).unwrap();
    let error = Schema::from_folder(folder.path()).unwrap_err().to_string();
    assert!(error.contains("a.proto:3:3") && error.contains("Missing"), "{error}");
}

#[test]
fn a_service_that_is_not_there_is_named() {
    let schema = schema();
    let error = schema.implement("shop.v1.Thing", Echo::new(&schema)).unwrap_err();
    assert!(matches!(&error, SchemaError::NoService(name) if name == "shop.v1.Thing"));
    let repository = Schema::from_folder(root().join("tests/proto")).unwrap();
    let services: Vec<_> = repository.services().collect();
    assert_eq!(services, ["grpc.testing.TestService", "tidewire.test.v1.BehaviourService"]);
}

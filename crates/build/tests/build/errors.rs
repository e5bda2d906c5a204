//! What a user reads when nothing can be generated.

use std::fs;

use tidewire_build::{Config, Error};

/// Compiles the file `a.proto` and gives the error, with the temporary folder cut off.
fn error(text: &str, change: impl Fn(Config) -> Config) -> (Error, String) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.proto"), text).unwrap();
    let config = Config::new().folder(folder.path()).out_dir(folder.path().join("out"));
    let error = change(config).compile().expect_err("nothing can be generated");
    let shown = format!("{error:?}").replace(&format!("{}/", folder.path().display()), "");
    (error, shown)
}

#[test]
fn all_diagnostics_are_shown_as_they_read() {
    let text = "syntax = \"proto3\";\nmessage A {\n  Foo foo = 1;\n  Bar bar = 2;\n}\n";
    let (error, shown) = error(text, |config| config);
    assert_eq!(error.diagnostics().map(|found| found.iter().count()), Some(2));
    let expected = "the .proto sources do not compile\n\n\
        a.proto:3:3: name 'Foo' is not defined\n  next step: correct the name";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("\na.proto:4:3: name 'Bar' is not defined\n"), "{shown}");
}

#[test]
fn names_that_cannot_be_types_are_refused_at_their_place() {
    let check = |text: &str, expected: &str| {
        let (_, shown) = error(&format!("syntax = \"proto3\";\n{text}"), |config| config);
        assert!(shown.contains(expected), "\nexpected {expected}\nfound    {shown}");
    };
    check("message type {}", "a.proto:2:9: `type` cannot be the name of a Rust type");
    check("message A { enum Self { B = 0; } }", "a.proto:2:18: `Self` cannot be the name");
    check("message a { message B {} }", "a.proto:2:9: message `a` and the module of its nested");
    check("message A { message b { oneof c { bool d = 1; } } }", "a.proto:2:21: message `b` and");
}

#[test]
fn a_wrong_configuration_says_what_is_wrong() {
    let text = "syntax = \"proto3\"; message A {}";
    let (_, shown) = error(text, |config| config.runtime_path("tidewire"));
    assert!(shown.contains("runtime_path \"tidewire\" is not a path that begins"), "{shown}");
    let (_, shown) = error(text, |config| config.out_dir("/dev/null/out"));
    assert!(shown.contains("generated code cannot be written: /dev/null/out"), "{shown}");
}

const SHOP: &str = r#"syntax = "proto3";
package shop.v1;
import "google/api/annotations.proto";
import "google/protobuf/timestamp.proto";
service Items {
  rpc Get(GetRequest) returns (Item) {
    option (google.api.http) = {
      get: "/items/{id}"
      additional_bindings { BINDING }
    };
  }
}
message GetRequest {
  string id = 1;
  Item item = 2;
  repeated string tags = 3;
  google.protobuf.Timestamp at = 4;
}
message Item { string name = 1; }
"#;

#[test]
fn a_path_that_names_what_the_request_does_not_have_is_refused_at_its_place() {
    let check = |binding: &str, expected: &str| {
        let (error, shown) = error(&SHOP.replace("BINDING", binding), |config| config);
        assert_eq!(error.diagnostics().map(|found| found.iter().count()), Some(1));
        let expected = format!("a.proto:{expected}\n  next step: see the comments of google/api/");
        assert!(shown.contains(&expected), "\nexpected {expected}\nfound    {shown}");
    };
    let fields = "id, item, tags, at";
    check(
        "get: \"/items/{idd}\"",
        &format!(
            "9:43: path \"/items/{{idd}}\": shop.v1.GetRequest has no field idd; it has {fields}"
        ),
    );
    check(
        "get: \"/i/{item.nam}\"",
        "9:39: path \"/i/{item.nam}\": shop.v1.Item has no field nam; it has name",
    );
    check(
        "get: \"/i/{tags}\"",
        "9:39: path \"/i/{tags}\": tags is repeated, so no path can fill it",
    );
    check(
        "get: \"/i/{item}\"",
        "9:39: path \"/i/{item}\": item is a shop.v1.Item, so no part of a path can fill it",
    );
    check(
        "get: \"/i/{id.x}\"",
        "9:39: path \"/i/{id.x}\": id is not a message, so no name can follow it",
    );
    check(
        "get: \"/i/{at.seconds}\"",
        "9:39: path \"/i/{at.seconds}\": at is given as one value, without a name after it",
    );
    check("get: \"/i/{id\"", "9:41: path \"/i/{id\": `}` is expected");
    check(
        "post: \"/i\" body: \"itm\"",
        &format!(
            "9:36: path \"/i\": `body: \"itm\"` is not a field of shop.v1.GetRequest; it has {fields}"
        ),
    );
    check(
        "get: \"/i\" response_body: \"x\"",
        "9:35: path \"/i\": `response_body: \"x\"` is not a field of shop.v1.Item; it has name",
    );
}

#[test]
fn a_path_that_fits_its_request_is_none_of_these() {
    for binding in ["get: \"/i/{item.name}/{at}\"", "post: \"/i/{id=a/**}:run\" body: \"item\""] {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.proto"), SHOP.replace("BINDING", binding)).unwrap();
        let config = Config::new().folder(folder.path()).out_dir(folder.path().join("out"));
        config.compile().unwrap();
    }
}

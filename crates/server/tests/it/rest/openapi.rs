//! The OpenAPI document.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};
use tidewire_rest::{FieldNames, Int64, RestOptions, SecurityScheme};
use tidewire_schema::Schema;
use tidewire_server::{AccessRules, Address, Builder, RunningServer, Server};
use tidewire_service::{Access, Body, Call, Reply};

use super::service::builder;
use crate::http::get;

async fn document(server: &RunningServer) -> Value {
    let answer = get(server, "/openapi.json").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    serde_json::from_str(answer.text()).unwrap()
}

#[tokio::test]
async fn every_binding_is_in_the_document() {
    let server = builder(RestOptions::default()).start().await.unwrap();
    let document = document(&server).await;
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["info"]["title"], "rest.v1.Echo");
    let paths = document["paths"].as_object().unwrap();
    for (path, verb) in [
        ("/query", "get"),
        ("/items/{text}", "get"),
        ("/items/{text}", "delete"),
        ("/items/{text}:archive", "post"),
        ("/items:page", "get"),
        ("/v1/shelves/{text}", "get"),
        ("/v1/shelves/{text_1}/books/{text_2}", "get"),
        ("/files/{text}", "get"),
        ("/numbers/{i32}/{nested.text}", "get"),
        ("/part/{nested.text}", "patch"),
        ("/count/{i32}", "get"),
        ("/upload/{text}", "post"),
    ] {
        assert!(paths[path][verb].is_object(), "{verb} {path}");
    }
    let ids: Vec<_> = paths
        .values()
        .flat_map(|verbs| verbs.as_object().unwrap().values())
        .map(|operation| operation["operationId"].as_str().unwrap())
        .collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
}

#[tokio::test]
async fn operations_say_what_they_take_and_give() {
    let server = builder(RestOptions::default()).start().await.unwrap();
    let document = document(&server).await;
    let operation = |path: &str, verb: &str| document["paths"][path][verb].clone();
    let get = operation("/numbers/{i32}/{nested.text}", "get");
    let parameters = get["parameters"].as_array().unwrap();
    let named = |name: &str| parameters.iter().find(|p| p["name"] == name).cloned();
    let i32 = named("i32").unwrap();
    assert_eq!((&i32["in"], &i32["required"]), (&"path".into(), &true.into()));
    assert_eq!(i32["schema"]["type"], "integer");
    assert_eq!(named("nested.text").unwrap()["in"], "path");
    assert_eq!(named("nested.count").unwrap()["in"], "query");
    assert_eq!(named("tags").unwrap()["schema"]["type"], "array");
    assert_eq!(named("at").unwrap()["schema"]["format"], "date-time");
    assert!(named("counts").is_none() && named("children").is_none() && named("extra").is_none());
    let everything = "#/components/schemas/rest.v1.Everything";
    let whole = operation("/whole", "post");
    assert_eq!(whole["requestBody"]["content"]["application/json"]["schema"]["$ref"], everything);
    let parameters = whole["parameters"].as_array().unwrap();
    assert!(parameters.iter().all(|parameter| parameter["in"] == "header"), "{parameters:?}");
    let create = operation("/items", "post");
    assert!(create["responses"]["201"]["content"]["application/json"].is_object());
    assert!(operation("/items/{text}", "delete")["responses"]["204"].get("content").is_none());
    let count = &operation("/count/{i32}", "get")["responses"]["200"]["content"];
    assert_eq!(count["application/json"]["schema"]["items"]["$ref"], everything);
    assert_eq!(count["application/x-ndjson"]["schema"]["$ref"], everything);
    assert_eq!(operation("/query", "get")["description"], "Everything by query.");
    let schema = &document["components"]["schemas"]["rest.v1.Everything"]["properties"];
    assert_eq!(schema["i64"]["type"], serde_json::json!(["integer", "string"]));
    assert_eq!(schema["nested"]["$ref"], "#/components/schemas/rest.v1.Nested");
    assert_eq!(schema["counts"]["additionalProperties"]["format"], "int64");
    assert!(schema["snakeCaseName"].is_object() && schema["otherName"].is_object());
}

#[tokio::test]
async fn every_reference_of_the_document_leads_somewhere() {
    let mut options = RestOptions::default();
    options.json.int64 = Int64::Text;
    options.json.names = FieldNames::Original;
    let server = builder(options).start().await.unwrap();
    let document = document(&server).await;
    let mut left = vec![&document];
    let mut found = 0;
    while let Some(value) = left.pop() {
        match value {
            Value::Object(members) => left.extend(members.values()),
            Value::Array(items) => left.extend(items),
            Value::String(text) => {
                if let Some(pointer) = text.strip_prefix("#/") {
                    found += 1;
                    let target = document.pointer(&format!("/{pointer}"));
                    assert!(target.is_some_and(Value::is_object), "{pointer}");
                }
            }
            _ => {}
        }
    }
    assert!(found > 20);
    let schema = &document["components"]["schemas"]["rest.v1.Everything"]["properties"];
    assert_eq!(schema["i64"]["type"], "string");
    assert!(schema["snake_case_name"].is_object() && schema["renamed"].is_object());
}

#[tokio::test]
async fn the_document_is_served_where_reflection_is_unless_told_otherwise() {
    let server = builder(RestOptions::default()).reflection(false).start().await.unwrap();
    assert_eq!(get(&server, "/openapi.json").await.status, 404);
    let mut options = RestOptions::default();
    options.openapi = Some(true);
    let server = builder(options.clone()).reflection(false).start().await.unwrap();
    assert_eq!(get(&server, "/openapi.json").await.status, 200);
    let own = async |_: Call| Ok(Reply::text("our own"));
    let server = builder(options).route(Method::GET, "/openapi.json", own).start().await.unwrap();
    assert_eq!(get(&server, "/openapi.json").await.text(), "our own");
}

const SHOP: &str = r#"
syntax = "proto3";
package shop.v1;
import "buf/validate/validate.proto";
import "google/api/annotations.proto";
import "tidewire/v1/options.proto";

service Shop {
  rpc Add(AddRequest) returns (Item) {
    option (google.api.http) = { post: "/items" body: "*" };
  }
  rpc Change(Item) returns (Item) {
    option (google.api.http) = { put: "/items/{id}" body: "*" };
  }
  rpc Find(FindRequest) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (tidewire.v1.method) = { access: ANONYMOUS };
    option (google.api.http) = { get: "/items" };
  }
}
message AddRequest {
  string name = 1 [(buf.validate.field).string = { min_len: 2, max_len: 40 }];
  int32 count = 2 [(buf.validate.field).int32 = { gte: 1, lt: 100 }];
  repeated string tags = 3 [(buf.validate.field).repeated = {
    max_items: 5, unique: true, items: { string: { pattern: "^[a-z]+$" } }
  }];
  string mail = 4 [(buf.validate.field).string.email = true];
  string note = 5 [(buf.validate.field).ignore = IGNORE_IF_ZERO_VALUE, (buf.validate.field).string.min_len = 3];
  Owner owner = 6 [(buf.validate.field).required = true];
}
message Owner { string name = 1 [(buf.validate.field).string.min_len = 1]; }
message Item { string id = 1 [(buf.validate.field).string.min_len = 1]; }
message FindRequest {
  string name = 1 [(buf.validate.field).string.min_len = 2];
  int32 limit = 2 [(buf.validate.field).int32.lte = 50];
}
"#;

async fn shop(builder: Builder) -> (RunningServer, Value) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
    let schema = Schema::from_folder(folder.path()).unwrap();
    let answer = async |_: Call| Ok(Reply::new(Body::Empty));
    let any: Address = "127.0.0.1:0".parse().unwrap();
    let service = schema.serve("shop.v1.Shop", answer).unwrap();
    let server = builder.listen(any).service(service).start().await.unwrap();
    let document = document(&server).await;
    (server, document)
}

#[tokio::test]
async fn requests_have_the_rules_that_they_are_checked_by() {
    let (_server, document) = shop(Server::builder()).await;
    let schemas = &document["components"]["schemas"];
    let add = &schemas["shop.v1.AddRequest"];
    assert_eq!(add["required"], json!(["name", "mail", "owner"]));
    let expected = json!({ "type": "string", "minLength": 2, "maxLength": 40 });
    assert_eq!(add["properties"]["name"], expected);
    let count = &add["properties"]["count"];
    assert_eq!((&count["minimum"], &count["exclusiveMaximum"]), (&json!(1), &json!(100)));
    let tags = &add["properties"]["tags"];
    assert_eq!((&tags["maxItems"], &tags["uniqueItems"]), (&json!(5), &json!(true)));
    assert_eq!(tags["items"], json!({ "type": "string", "pattern": "^[a-z]+$" }));
    assert_eq!(add["properties"]["mail"]["format"], "email");
    assert_eq!(add["properties"]["note"], json!({ "type": "string" }), "an empty one passes");
    assert_eq!(schemas["shop.v1.Owner"]["required"], json!(["name"]));
    assert_eq!(schemas["shop.v1.Item"].get("required"), None, "replies have it too");
    let operation = |path: &str, verb: &str| document["paths"][path][verb].clone();
    assert_eq!(operation("/items", "post")["requestBody"]["required"], true);
    assert_eq!(operation("/items/{id}", "put")["requestBody"].get("required"), None);
    let find = operation("/items", "get");
    let expected = json!([
        { "name": "name", "in": "query", "required": true,
          "schema": { "type": "string", "minLength": 2 } },
        { "name": "limit", "in": "query",
          "schema": { "type": "integer", "format": "int32", "maximum": 50 } },
    ]);
    assert_eq!(find["parameters"], expected, "a query has no Idempotency-Key");
    let key = &operation("/items", "post")["parameters"][0];
    assert_eq!((&key["name"], &key["in"]), (&json!("Idempotency-Key"), &json!("header")));

    let (_server, document) = shop(Server::builder().validation(false)).await;
    let add = &document["components"]["schemas"]["shop.v1.AddRequest"];
    assert_eq!(add.get("required"), None, "nothing is checked");
}

#[tokio::test]
async fn operations_say_how_their_callers_are_known() {
    let mut options = RestOptions::default();
    options.security = vec![SecurityScheme::Bearer, SecurityScheme::ApiKey("x-api-key".to_owned())];
    let rules =
        AccessRules::default().otherwise(Access::Authenticated).reflection(Access::Anonymous);
    let (_server, document) = shop(Server::builder().rest(options).access(rules)).await;
    let schemes = &document["components"]["securitySchemes"];
    assert_eq!(schemes["apiKey"], json!({ "type": "apiKey", "in": "header", "name": "x-api-key" }));
    assert_eq!(schemes["bearer"]["scheme"], "bearer");
    let security = |verb: &str| document["paths"]["/items"][verb]["security"].clone();
    assert_eq!(security("post"), json!([{ "bearer": [] }, { "apiKey": [] }]));
    assert_eq!(security("get"), json!([]), "everybody may");

    let (_server, document) = shop(Server::builder()).await;
    assert_eq!(document["components"].get("securitySchemes"), None);
    assert_eq!(document["paths"]["/items"]["post"].get("security"), None);
}

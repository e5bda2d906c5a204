//! The OpenAPI document.

use std::collections::BTreeSet;

use http::Method;
use serde_json::Value;
use tidewire_rest::{FieldNames, Int64, RestOptions};
use tidewire_server::RunningServer;
use tidewire_service::{Call, Reply};

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
    assert!(whole.get("parameters").is_none());
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

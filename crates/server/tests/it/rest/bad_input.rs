//! What is wrong with a request is said, with the field and the template.

use tidewire_rest::{ErrorFormat, RestOptions, UnknownNames};

use super::service::{builder, start};
use crate::http::{get, json, send};

#[tokio::test]
async fn wrong_values_are_refused_with_field_and_template() {
    let server = start().await;
    for (target, expected) in WRONG_VALUES {
        let answer = get(&server, target).await;
        let error: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
        assert_eq!(
            (answer.status, error["message"].as_str().unwrap()),
            (400, *expected),
            "{target}"
        );
        assert_eq!(error["code"], "invalid_argument");
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_with_the_names_there_are() {
    let server = start().await;
    let answer = get(&server, "/query?nope=1").await;
    assert_eq!(answer.status, 400);
    let text = answer.text();
    assert!(
        text.contains(
            "query parameter nope: rest.v1.Everything has no field nope; it has text, flag, i32"
        ),
        "{text}"
    );
    assert!(text.contains("and 24 more (GET /query)"), "{text}");
    let many = "text=a&".repeat(300);
    let answer = get(&server, &format!("/query?{many}")).await;
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("more than rest.query_parameters_max = 256 parameters"));
    let deep = "/query?nested.".to_owned() + &"inner.".repeat(30) + "text=a";
    let answer = get(&server, &deep).await;
    assert!(
        answer.status == 400 && answer.text().contains("more than 16 names deep"),
        "{}",
        answer.text()
    );
}

#[tokio::test]
async fn wrong_bodies_are_refused() {
    let server = start().await;
    for (verb, target, body, expected) in [
        ("POST", "/whole", "{", "EOF while parsing an object"),
        ("POST", "/whole", r#"{"i32":"x"}"#, "field i32"),
        (
            "POST",
            "/whole?text=a",
            "{}",
            "query parameter text: the body fills every field; put it there (POST /whole)",
        ),
        (
            "PUT",
            "/whole/a/b",
            "[]",
            "invalid type: sequence, expected an object of rest.v1.Everything at line 1 column 0 (PUT /whole/{text}/{nested.text})",
        ),
        ("PUT", "/whole/a/b", "{} {}", "trailing characters at line 1 column 4"),
        ("PUT", "/whole/a/b", r#"{"i32"#, "EOF while parsing a string at line 1 column 5"),
        ("POST", "/number", r#"1}, "text": {"#, "trailing characters at line 1 column 2"),
        ("POST", "/number", r#"1,"text":"x""#, "trailing characters at line 1 column 2"),
        (
            "PATCH",
            "/part/b?nested.count=1",
            "{}",
            "query parameter nested.count: the body fills this field; put it there",
        ),
        (
            "PATCH",
            "/part/b",
            "7",
            "field nested: invalid type: integer `7`, expected an object of rest.v1.Nested",
        ),
        (
            "POST",
            "/items/7:archive",
            "{}",
            "a body is not read here; give the fields in the path or the query (POST /items/{text}:archive)",
        ),
    ] {
        let answer = json(&server, verb, target, body).await;
        assert_eq!(answer.status, 400, "{verb} {target} {body}: {}", answer.text());
        assert!(answer.text().contains(expected), "{verb} {target} {body}: {}", answer.text());
    }
}

#[tokio::test]
async fn other_content_types_and_compressed_bodies_are_refused() {
    let server = start().await;
    for headers in [
        "",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: text/plain\r\n",
        "content-type: application/json\r\ncontent-encoding: gzip\r\n",
    ] {
        let answer = send(&server, "POST", "/whole", headers, b"{}").await;
        assert_eq!(answer.status, 415, "{headers} {}", answer.text());
    }
    for headers in [
        "content-type: Application/JSON; charset=utf-8\r\n",
        "content-type: application/merge-patch+json\r\n",
    ] {
        let answer = send(&server, "POST", "/whole", headers, b"{}").await;
        assert_eq!(answer.status, 200, "{headers} {}", answer.text());
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_with_413() {
    let server = start().await;
    let headers = "content-type: application/json\r\ncontent-length: 5000000\r\n";
    let answer = send(&server, "POST", "/whole", headers, b"").await;
    assert_eq!(answer.status, 413, "{}", answer.text());
}

#[tokio::test]
async fn another_verb_is_answered_with_405_and_those_there_are() {
    let server = start().await;
    let answer = json(&server, "POST", "/items/7", "{}").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("DELETE, GET, PURGE")));
    let answer = get(&server, "/whole").await;
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    assert_eq!(get(&server, "/nowhere").await.status, 404);
    assert_eq!(get(&server, "/items/").await.status, 404);
    assert_eq!(get(&server, "/").await.status, 404);
}

#[tokio::test]
async fn errors_of_a_service_have_the_status_of_their_code() {
    let server = start().await;
    for (code, status, name) in [
        (3, 400, "invalid_argument"),
        (5, 404, "not_found"),
        (6, 409, "already_exists"),
        (14, 503, "unavailable"),
        (16, 401, "unauthenticated"),
    ] {
        let answer = get(&server, &format!("/fail/{code}?text=why")).await;
        let expected = format!(r#"{{"code":"{name}","message":"why"}}"#);
        assert_eq!((answer.status, answer.text()), (status, &*expected));
    }
    let answer = get(&server, "/panic").await;
    assert_eq!(answer.status, 500);
    assert!(!answer.text().contains("asked for"), "the cause stays here: {}", answer.text());
    assert_eq!(get(&server, "/items/7").await.status, 200, "the server goes on");
}

#[tokio::test]
async fn members_that_name_no_field_are_refused_where_a_server_is_told_to() {
    let nope = r#"{"text":"a","children":[{"inner":{"nope":1}}]}"#;
    let server = start().await;
    assert_eq!(json(&server, "POST", "/whole", nope).await.status, 200);
    let mut options = RestOptions::default();
    options.unknown_members = UnknownNames::Refused;
    let server = builder(options).start().await.unwrap();
    let why = r#"unknown field \"nope\" on message rest.v1.Nested at line 1 column"#;
    for (verb, target, body, expected) in [
        ("POST", "/whole", nope, format!("field children[0].inner: {why} 40 (POST /whole)")),
        (
            "POST",
            "/whole",
            r#"{"byNumber":{"7":{"nope":1}}}"#,
            format!("field byNumber.7: {why} 24 (POST /whole)"),
        ),
        (
            "PATCH",
            "/part/b",
            r#"{"nope":1}"#,
            format!("field nested: {why} 7 (PATCH /part/{{nested.text}})"),
        ),
    ] {
        let answer = json(&server, verb, target, body).await;
        assert!(answer.status == 400 && answer.text().contains(&expected), "{}", answer.text());
    }
    for body in
        [r#"{"extra":{"nope":1},"snake_case_name":"x","counts":{"nope":"1"},"nested":null}"#, ""]
    {
        let answer = json(&server, "POST", "/whole", body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
}

#[tokio::test]
async fn errors_can_be_problem_documents() {
    let mut options = RestOptions::default();
    options.errors = ErrorFormat::Problem;
    let server = builder(options).start().await.unwrap();
    let answer = get(&server, "/fail/5?text=why").await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (404, Some("application/problem+json"))
    );
    let problem: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    let expected = serde_json::json!({"title": "Not Found", "status": 404, "detail": "why", "code": "not_found"});
    assert_eq!(problem, expected);
    let answer = json(&server, "POST", "/items/7", "{}").await;
    let problem: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(
        (&problem["status"], answer.header("allow")),
        (&405.into(), Some("DELETE, GET, PURGE"))
    );
    let answer = get(&server, "/nowhere").await;
    let problem: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(problem["detail"], "nothing is at /nowhere");
}

/// Targets, and what is said about them.
const WRONG_VALUES: &[(&str, &str)] = &[
    ("/query?i32=x", r#"query parameter i32: "x" is not an int32 (GET /query)"#),
    (
        "/query?nested.count=1.5",
        r#"query parameter nested.count: "1.5" is not an int64 (GET /query)"#,
    ),
    ("/query?flag", r#"query parameter flag: "" is not true or false (GET /query)"#),
    (
        "/query?kind=UGLY",
        r#"query parameter kind: "UGLY" is not a rest.v1.Kind: one of KIND_UNSPECIFIED, GOOD, BAD (GET /query)"#,
    ),
    (
        "/query?i32=1&i32=2",
        "query parameter i32: given more than once, and the field is not repeated (GET /query)",
    ),
    (
        "/query?nested=x",
        "query parameter nested: nested is a rest.v1.Nested; name a field of it, such as nested.text (GET /query)",
    ),
    ("/query?counts=x", "query parameter counts: counts is a map; send it in a body (GET /query)"),
    (
        "/query?counts.a=x",
        "query parameter counts.a: counts is a map; its entries cannot be named (GET /query)",
    ),
    (
        "/query?children.text=x",
        "query parameter children.text: children is repeated; fields of its elements cannot be named (GET /query)",
    ),
    (
        "/query?extra=x",
        "query parameter extra: extra is a google.protobuf.Struct; send it in a body (GET /query)",
    ),
    (
        "/query?text.x=1",
        "query parameter text.x: text is not a message, so no name can follow it (GET /query)",
    ),
    (
        "/query?at.seconds=1",
        "query parameter at.seconds: at is given as one value, without a name after it (GET /query)",
    ),
    (
        "/query?nested.nope=1",
        "query parameter nested.nope: rest.v1.Nested has no field nope; it has text, inner, count, kinds (GET /query)",
    ),
    (
        "/query?text=%ff",
        "query parameter text: it is not UTF-8 after percent-decoding (GET /query)",
    ),
    (
        "/query?text=%4",
        "query parameter text: a % is not followed by two hexadecimal digits (GET /query)",
    ),
    ("/query?data=%21", r#"query parameter data: "!" is not bytes in base64 (GET /query)"#),
    ("/items/%ff", "path part text: it is not UTF-8 after percent-decoding (GET /items/{text})"),
    (
        "/items/7?text=8",
        "query parameter text: the path fills this field; remove the parameter (GET /items/{text})",
    ),
    ("/numbers/x/y", r#"path part i32: "x" is not an int32 (GET /numbers/{i32}/{nested.text})"#),
];

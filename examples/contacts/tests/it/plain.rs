//! The handlers without a `.proto`, literally as web-server comparisons have them.

use hyper::Method;

use crate::app::App;

#[tokio::test]
async fn plain_handlers_answer_with_status_type_and_body_of_the_comparisons() {
    let app = App::start().await;
    let check = async |path: &str, status: u16, content_type: &str, body: &str| {
        let answer = app.get(path).await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(answer.header("content-type"), content_type, "{path}");
        assert_eq!(answer.text(), body, "{path}");
    };
    const TEXT: &str = "text/plain; charset=utf-8";
    check("/health", 204, "", "").await;
    check("/echo/warmup", 200, TEXT, "warmup").await;
    check("/echo/a%20b", 200, TEXT, "a b").await;
    check("/echo/100%25", 200, TEXT, "100%").await;
    check("/echo/%25d%25s", 200, TEXT, "%d%s").await;
    check("/echo/a%2Fb", 200, TEXT, "a/b").await;
    check("/echo/Zo%C3%AB", 200, TEXT, "Zoë").await;
    check("/plaintext", 200, TEXT, "Hello, World!").await;
    check("/plaintext?name=x", 200, TEXT, "Hello, World!").await;
    check("/json", 200, "application/json", r#"{"message":"Hello World!"}"#).await;
    app.stop().await;
}

#[tokio::test]
async fn a_plain_handler_with_a_wrong_verb_or_path_says_so() {
    let app = App::start().await;
    let answer = app.send(Method::POST, "/health", "", "").await;
    assert_eq!((answer.status.as_u16(), answer.header("allow")), (405, "GET"));
    assert_eq!(app.get("/echo/%ff").await.status, 400);
    assert_eq!(app.get("/echo").await.status, 404);
    app.stop().await;
}

#[tokio::test]
async fn typed_methods_answer_as_the_comparisons_have_them() {
    let app = App::start().await;
    let check = async |path: &str, content_type: &str, body: &str| {
        let answer = app.get(path).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, body), "{path}");
        assert_eq!(answer.header("content-type"), content_type, "{path}");
    };
    const JSON: &str = "application/json";
    check("/store/the", JSON, r#"{"value":"lzw"}"#).await;
    check("/store/hello", JSON, r#"{"value":"zwddg"}"#).await;
    check("/store/xyz%2Fz", JSON, r#"{"value":"pqr/r"}"#).await;
    check("/mvc/plaintext", "text/plain; charset=utf-8", "Hello World!").await;
    check("/mvc/json", JSON, r#"{"message":"Hello World!"}"#).await;
    let long = app.get(&format!("/store/{}", "x".repeat(1025))).await;
    assert_eq!(long.status, 400);
    assert!(long.text().contains("field key is 1025 bytes"), "{}", long.text());
    app.stop().await;
}

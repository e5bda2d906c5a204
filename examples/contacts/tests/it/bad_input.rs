//! What is wrong with a request over the RPC protocols: each answer says what to do.

use contacts::store::sqlite::{Options, Sqlite};
use hyper::Method;
use tidewire::{Address, Call, Client, Reply, Server};

use crate::app::{App, NOWHERE, database_in};

#[tokio::test]
async fn each_fault_of_a_connect_request_has_its_code_and_names_what_is_wrong() {
    let app = App::start().await;
    let check = async |method: &str, content_type: &str, body: &str, status: u16, needle: &str| {
        let path = format!("/contacts.v1.Contacts/{method}");
        let answer = app.send(Method::POST, &path, content_type, body.to_owned()).await;
        let text = String::from_utf8_lossy(&answer.body);
        assert_eq!(answer.status, status, "{method} {body}: {text}");
        assert!(text.contains(needle), "{method} {body}: {text}");
    };
    const JSON: &str = "application/json";
    let long = format!(r#"{{"firstName":"x","surname":"{}"}}"#, "x".repeat(1025));
    check("Create", JSON, "{", 400, "invalid_argument").await;
    check("Create", JSON, r#"{"firstName":1}"#, 400, "firstName").await;
    check("Create", JSON, r#"{"first_name":[]}"#, 400, "first_name").await;
    check("Create", JSON, &long, 400, "field surname is 1025 bytes, over the limit of 1024").await;
    check("Create", "application/proto", "\u{1}nonsense", 400, "invalid_argument").await;
    check("Get", JSON, r#"{"id":"one"}"#, 400, "id").await;
    check("Get", JSON, r#"{"id":2147483648}"#, 400, "id").await;
    check("Get", JSON, r#"{"id":5}"#, 404, "no contact has id 5").await;
    check("Get", "text/csv", "1", 415, "").await;
    check("Rename", JSON, "{}", 404, "unimplemented").await;
    app.stop().await;
}

#[tokio::test]
async fn a_command_is_not_answered_by_get() {
    let app = App::start().await;
    let answer = app.get("/contacts.v1.Contacts/Create?connect=v1&encoding=json&message=%7B%7D");
    assert_eq!(answer.await.status, 405);
    app.stop().await;
}

#[tokio::test]
async fn a_route_in_the_way_of_a_method_is_refused_with_the_line_of_the_proto() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&database_in(folder.path()), &Options::default()).unwrap();
    let nowhere = Client::builder(NOWHERE).build().unwrap();
    let own = async |_: Call| Ok(Reply::text("mine"));
    let server = Server::builder().listen("127.0.0.1:0".parse::<Address>().unwrap()).route(
        Method::GET,
        "/contacts/{name}",
        own,
    );
    let error = contacts::add_to(server, store, nowhere).start().await.unwrap_err();
    let proto = std::fs::read_to_string("proto/contacts/v1/contacts.proto").unwrap();
    let line = proto.lines().position(|line| line.contains("get: \"/contacts/{id}\"")).unwrap() + 1;
    assert_eq!(
        error.to_string(),
        format!(
            "GET /contacts/{{id}} at contacts/v1/contacts.proto:{line} (contacts.v1.Contacts.Get) \
             and the plain route /contacts/{{name}} match the same requests; change one of them"
        )
    );
}

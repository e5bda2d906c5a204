//! The same service over Connect, gRPC and the client that `build` generates.

use std::sync::Arc;

use contacts::TypedContacts;
use contacts::proto::contacts::v1::{
    ContactsClient, ContactsServer, CreateRequest, DeleteRequest, GetRequest,
};
use contacts::store::sqlite::{Options, Sqlite};
use hyper::Method;
use tidewire::service::Channel;
use tidewire::{Code, Codec};

use crate::app::{App, database_in};

const CREATE: &str = "/contacts.v1.Contacts/Create";
const GET: &str = "/contacts.v1.Contacts/Get";
const DELETE: &str = "/contacts.v1.Contacts/Delete";

/// `id: 1, first_name: "Ada", surname: "Lovelace"` on the wire.
const ADA: &[u8] = b"\x08\x01\x12\x03Ada\x1a\x08Lovelace";
/// The same without the id, with the numbers that a request gives the fields.
const ADA_NAMES: &[u8] = b"\x0a\x03Ada\x12\x08Lovelace";
const ID_1: &[u8] = b"\x08\x01";

#[tokio::test]
async fn connect_with_json() {
    let app = App::start().await;
    let created = app.post(CREATE, r#"{"firstName":"Ada","surname":"Lovelace"}"#).await;
    assert_eq!(created.status, 200, "an RPC protocol has its own notion of success");
    assert_eq!(created.header("location"), "", "an id is in the reply; URLs are REST's");
    assert_eq!(created.text(), r#"{"id":1,"firstName":"Ada","surname":"Lovelace"}"#);
    let found = app.post(GET, r#"{"id":1}"#).await;
    assert_eq!(found.text(), r#"{"id":1,"firstName":"Ada","surname":"Lovelace"}"#);
    let query = format!("{GET}?connect=v1&encoding=json&message=%7B%22id%22%3A1%7D");
    assert_eq!(app.get(&query).await.text(), found.text(), "a query may be sent by GET");
    assert_eq!(app.post(DELETE, r#"{"id":1}"#).await.text(), "{}");
    let gone = app.post(GET, r#"{"id":1}"#).await;
    assert_eq!(gone.status, 404);
    assert_eq!(gone.text(), r#"{"code":"not_found","message":"no contact has id 1"}"#);
    app.stop().await;
}

#[tokio::test]
async fn connect_with_protobuf() {
    let app = App::start().await;
    let call = async |method: &str, message: &'static [u8]| {
        let answer = app.send(Method::POST, method, "application/proto", message).await;
        assert_eq!(answer.header("content-type"), "application/proto");
        answer.body
    };
    assert_eq!(call(CREATE, ADA_NAMES).await, ADA);
    assert_eq!(call(GET, ID_1).await, ADA);
    assert_eq!(call(DELETE, ID_1).await, &b""[..]);
    app.stop().await;
}

#[tokio::test]
async fn grpc() {
    let app = App::start().await;
    let call = async |method: &str, message: &[u8]| {
        let answer = app.grpc(method, message).await;
        assert_eq!(answer.status, 200);
        (answer.trailer("grpc-status").to_owned(), answer)
    };
    let (status, created) = call(CREATE, ADA_NAMES).await;
    assert_eq!((status.as_str(), &created.body[5..]), ("0", ADA));
    let (status, found) = call(GET, ID_1).await;
    assert_eq!((status.as_str(), &found.body[5..]), ("0", ADA));
    assert_eq!(call(DELETE, ID_1).await.0, "0");
    let (status, gone) = call(GET, ID_1).await;
    assert_eq!(status, "5");
    assert_eq!(gone.trailer("grpc-message").replace("%20", " "), "no contact has id 1");
    app.stop().await;
}

#[tokio::test]
async fn the_generated_client_within_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sqlite::open(&database_in(folder.path()), &Options::default()).unwrap();
    let service = Arc::new(TypedContacts::new(Arc::new(store)));
    for (codec, id) in [(Codec::Proto, 1), (Codec::Json, 2)] {
        let server = ContactsServer::from_arc(Arc::clone(&service));
        let client = ContactsClient::new(Channel::new(server).with_codec(codec));
        let names = CreateRequest {
            first_name: "Ada".to_owned(),
            surname: "Lovelace".to_owned(),
            ..Default::default()
        };
        let created = client.create(names).await.unwrap().body;
        assert_eq!((created.id, created.surname.as_str()), (id, "Lovelace"));
        let get = GetRequest { id, ..Default::default() };
        assert_eq!(client.get(get.clone()).await.unwrap().body, created);
        let delete = DeleteRequest { id, ..Default::default() };
        client.delete(delete).await.unwrap();
        let gone = client.get(get).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound);
    }
}

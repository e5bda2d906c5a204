//! `/contacts`, literally as the assertions of the web-server comparison have it, on each database.

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Method, Request};

use crate::app::{App, exchange};

#[tokio::test]
async fn a_contact_is_created_found_and_deleted() {
    for app in App::each().await {
        let created = app.post("/contacts", r#"{"firstName":"x","surname":"y"}"#).await;
        assert_eq!(created.status, 201);
        assert_eq!(created.header("content-type"), "application/json");
        let location = format!("http://{}/contacts/1", app.address());
        assert_eq!(created.header("location"), location);
        assert_eq!(created.text(), r#"{"id":1,"firstName":"x","surname":"y"}"#);

        let found = app.get("/contacts/1").await;
        assert_eq!(found.status, 200);
        assert_eq!(found.header("content-type"), "application/json");
        assert_eq!(found.text(), r#"{"id":1,"firstName":"x","surname":"y"}"#);

        let deleted = app.delete("/contacts/1").await;
        assert_eq!((deleted.status.as_u16(), deleted.text()), (204, ""));
        assert_eq!(app.get("/contacts/1").await.status, 404);
        app.stop().await;
    }
}

#[tokio::test]
async fn the_location_has_the_name_that_the_client_used() {
    for app in App::each().await {
        let request = Request::post("/contacts")
            .header("host", "contacts.localhost:8090")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(r#"{"firstName":"x"}"#)))
            .unwrap();
        let created = exchange(&app.address(), request).await;
        assert_eq!(created.header("location"), "http://contacts.localhost:8090/contacts/1");
        app.stop().await;
    }
}

#[tokio::test]
async fn the_location_has_the_scheme_of_the_listener() {
    const TLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tls");
    let app = App::start_with_settings(&format!(
        "[server.tls]\ncertificate = \"{TLS}/server.pem\"\nkey = \"{TLS}/server.key\"\n"
    ))
    .await;
    for version in ["--http1.1", "--http2"] {
        let url = format!("https://{}", app.address());
        let output = tokio::process::Command::new("curl")
            .args(["-sS", "-k", "-D", "-", version, "--json", r#"{"firstName":"x"}"#])
            .arg(format!("{url}/contacts"))
            .output()
            .await
            .unwrap();
        let head = String::from_utf8(output.stdout).unwrap();
        let location = head.lines().find_map(|line| line.strip_prefix("location: "));
        let location = location.unwrap_or_else(|| panic!("{head}"));
        assert!(location.starts_with(&format!("{url}/contacts/")), "{location}");
    }
    app.stop().await;
}

#[tokio::test]
async fn a_contact_without_a_first_name_is_refused_and_the_field_is_named() {
    for app in App::each().await {
        for (body, what) in [
            ("{}", "firstName: value is required"),
            (r#"{"firstName":"","surname":"x"}"#, "firstName: value is required"),
            (r#"{"firstname":"Ada"}"#, "firstname"),
        ] {
            let refused = app.post("/contacts", body).await;
            assert_eq!(refused.status, 400, "{body}");
            assert!(refused.text().contains(what), "{body}: {}", refused.text());
        }
        let only = app.post("/contacts", r#"{"firstName":"Ada"}"#).await;
        assert_eq!(only.text(), r#"{"id":1,"firstName":"Ada","surname":""}"#);
        let emptied =
            app.send(Method::PATCH, "/contacts/1", "application/json", r#"{"firstName":""}"#);
        let emptied = emptied.await;
        assert_eq!(emptied.status, 400);
        assert!(emptied.text().contains("firstName: must be at least 1 character"));
        app.stop().await;
    }
}

#[tokio::test]
async fn names_in_any_script_come_back_as_they_were() {
    for app in App::each().await {
        for (id, name) in [(1, "Zoë"), (2, "美咲"), (3, "O'Brien; DROP TABLE contact"), (4, "👩‍🚀")]
        {
            let body = format!(r#"{{"firstName":"{name}","surname":"\"\\\n"}}"#);
            assert_eq!(app.post("/contacts", body).await.status, 201);
            let expected = format!(r#"{{"id":{id},"firstName":"{name}","surname":"\"\\\n"}}"#);
            assert_eq!(app.get(&format!("/contacts/{id}")).await.text(), expected);
        }
        app.stop().await;
    }
}

#[tokio::test]
async fn deleting_succeeds_whether_the_contact_is_there_or_not_and_its_id_is_never_used_again() {
    for app in App::each().await {
        for path in ["/contacts/1", "/contacts/2000000"] {
            assert_eq!(app.delete(path).await.status, 204);
        }
        app.post("/contacts", r#"{"firstName":"x"}"#).await;
        assert_eq!(app.delete("/contacts/1").await.status, 204);
        let next = app.post("/contacts", r#"{"firstName":"y"}"#).await;
        assert_eq!(next.text(), r#"{"id":2,"firstName":"y","surname":""}"#);
        app.stop().await;
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_said_with_the_field() {
    for app in App::each().await {
        let check = async |method: Method, path: &str, body: &str, status: u16, needle: &str| {
            let answer = app.send(method, path, "application/json", body.to_owned()).await;
            assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
            assert!(answer.text().contains(needle), "{path} {body}: {}", answer.text());
        };
        let long = format!(r#"{{"firstName":"{}"}}"#, "x".repeat(1025));
        check(Method::GET, "/contacts/2000000", "", 404, "no contact has id 2000000").await;
        check(Method::GET, "/contacts/0", "", 404, "no contact has id 0").await;
        check(Method::GET, "/contacts/-1", "", 404, "no contact has id -1").await;
        check(Method::GET, "/contacts/abc", "", 400, "id").await;
        check(Method::GET, "/contacts/99999999999", "", 400, "id").await;
        check(Method::DELETE, "/contacts/abc", "", 400, "id").await;
        check(Method::POST, "/contacts", "{", 400, "invalid_argument").await;
        check(Method::POST, "/contacts", r#"{"firstName":1}"#, 400, "firstName").await;
        check(Method::POST, "/contacts", r#"{"surname":{}}"#, 400, "surname").await;
        check(Method::POST, "/contacts", &long, 400, "field first_name is 1025 bytes").await;
        check(Method::PUT, "/contacts", "{}", 405, "POST").await;
        let twice = r#"{"surname":"x","surname":"y"}"#;
        check(Method::POST, "/contacts", twice, 400, "surname").await;
        app.stop().await;
    }
}

#[tokio::test]
async fn all_contacts_are_one_array_or_a_line_each() {
    for app in App::each().await {
        let empty = app.get("/contacts").await;
        assert_eq!((empty.header("content-type"), empty.text()), ("application/json", "[]"));
        for name in ["a", "b", "c"] {
            app.post("/contacts", format!(r#"{{"firstName":"{name}"}}"#)).await;
        }
        app.delete("/contacts/2").await;
        let all = app.get("/contacts").await;
        assert_eq!(all.status, 200);
        assert_eq!(
            all.text(),
            r#"[{"id":1,"firstName":"a","surname":""},{"id":3,"firstName":"c","surname":""}]"#
        );
        let request = Request::get("/contacts")
            .header("host", app.address())
            .header("accept", "application/x-ndjson")
            .body(Full::new(Bytes::new()))
            .unwrap();
        let lines = exchange(&app.address(), request).await;
        assert_eq!(
            lines.text(),
            "{\"id\":1,\"firstName\":\"a\",\"surname\":\"\"}\n{\"id\":3,\"firstName\":\"c\",\"surname\":\"\"}\n"
        );
        app.stop().await;
    }
}

#[tokio::test]
async fn pages_follow_each_other_without_a_gap_or_a_repeat_whatever_comes_and_goes() {
    for app in App::each().await {
        for _ in 0..5 {
            app.post("/contacts", r#"{"firstName":"x"}"#).await;
        }
        let ids = |page: &serde_json::Value| -> Vec<i64> {
            let contacts = page["contacts"].as_array().unwrap();
            contacts.iter().map(|contact| contact["id"].as_i64().unwrap()).collect()
        };
        let page = async |token: &str| -> serde_json::Value {
            let answer = app.get(&format!("/contacts:page?page_size=2&page_token={token}")).await;
            assert_eq!(answer.status, 200, "{}", answer.text());
            serde_json::from_str(answer.text()).unwrap()
        };
        let first = page("").await;
        assert_eq!(ids(&first), [1, 2]);
        app.delete("/contacts/2").await;
        app.delete("/contacts/3").await;
        let second = page(first["nextPageToken"].as_str().unwrap()).await;
        assert_eq!(ids(&second), [4, 5]);
        assert_eq!(second["nextPageToken"], "", "the last page, although it is full");
        let whole = app.get("/contacts:page").await;
        assert_eq!(
            whole.text(),
            r#"{"contacts":[{"id":1,"firstName":"x","surname":""},{"id":4,"firstName":"x","surname":""},{"id":5,"firstName":"x","surname":""}],"nextPageToken":""}"#
        );
        app.stop().await;
    }
}

#[tokio::test]
async fn a_change_changes_the_fields_that_it_has() {
    for app in App::each().await {
        app.post("/contacts", r#"{"firstName":"Ada","surname":"Lovelace"}"#).await;
        let check = async |body: &str, expected: &str| {
            let patched =
                app.send(Method::PATCH, "/contacts/1", "application/json", body.to_owned());
            let patched = patched.await;
            assert_eq!((patched.status.as_u16(), patched.text()), (200, expected), "{body}");
            assert_eq!(app.get("/contacts/1").await.text(), expected);
        };
        check(r#"{"surname":"Byron"}"#, r#"{"id":1,"firstName":"Ada","surname":"Byron"}"#).await;
        check("{}", r#"{"id":1,"firstName":"Ada","surname":"Byron"}"#).await;
        check(
            r#"{"firstName":"A","surname":null}"#,
            r#"{"id":1,"firstName":"A","surname":"Byron"}"#,
        )
        .await;
        check(r#"{"surname":""}"#, r#"{"id":1,"firstName":"A","surname":""}"#).await;
        check(r#"{"id":7,"firstName":"x"}"#, r#"{"id":1,"firstName":"x","surname":""}"#).await;
        app.stop().await;
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_page_or_a_change_is_said_with_the_field() {
    for app in App::each().await {
        let check = async |method: Method, path: &str, body: &str, status: u16, needle: &str| {
            let answer = app.send(method, path, "application/json", body.to_owned()).await;
            assert_eq!(answer.status, status, "{path} {body}: {}", answer.text());
            assert!(answer.text().contains(needle), "{path} {body}: {}", answer.text());
        };
        let page = "/contacts:page?page_size=-1";
        check(Method::GET, page, "", 400, "field page_size is -1").await;
        check(Method::GET, "/contacts:page?page_size=x", "", 400, "GET /contacts:page").await;
        check(
            Method::GET,
            "/contacts:page?page_token=1",
            "",
            400,
            "field page_token was not issued",
        )
        .await;
        check(Method::GET, "/contacts:page?size=1", "", 400, "page_size").await;
        check(Method::PATCH, "/contacts/1", r#"{"surname":"x"}"#, 404, "no contact has id 1").await;
        check(Method::PATCH, "/contacts/1", "{}", 404, "no contact has id 1").await;
        check(Method::PATCH, "/contacts/x", "{}", 400, "PATCH /contacts/{id}").await;
        check(Method::PATCH, "/contacts/1", r#"{"surname":1}"#, 400, "surname").await;
        let long = format!(r#"{{"surname":"{}"}}"#, "x".repeat(1025));
        check(Method::PATCH, "/contacts/1", &long, 400, "field surname is 1025 bytes").await;
        let nul = r#"{"firstName":"x","surname":"\u0000"}"#;
        check(Method::PATCH, "/contacts/1", nul, 400, "field surname holds a NUL").await;
        check(Method::POST, "/contacts", nul, 400, "field surname holds a NUL").await;
        app.stop().await;
    }
}

//! The page at `/` in a browser: by keyboard, at the width of a phone and of a desk, with errors.

use hyper::Method;

use crate::app::App;
use crate::chromium::Page;

/// An application with three contacts, and its page.
async fn open(width: u32) -> (App, Page) {
    let app = App::start().await;
    for (first, last) in [("Łukasz", "Ibrahim"), ("<b>Zoë</b>", ""), ("Mei", "O'Neill")] {
        let json = serde_json::json!({"firstName": first, "surname": last});
        assert_eq!(app.post("/contacts", json.to_string()).await.status, 201);
    }
    let mut page = Page::open(&format!("http://{}/", app.address()), width).await;
    page.until("document.querySelectorAll('#rows tr').length === 3").await;
    (app, page)
}

/// Nothing of the page was refused or thrown, and it asked its own server only.
async fn close(app: App, page: Page) {
    let own = format!("http://{}/", app.address());
    let foreign: Vec<_> = page.requested.iter().filter(|url| !url.starts_with(&own)).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
    assert_eq!(page.faults, Vec::<String>::new());
    page.close().await;
    app.stop().await;
}

async fn text(page: &mut Page, id: &str) -> String {
    let text = page.value(&format!("document.getElementById('{id}').textContent")).await;
    text.as_str().unwrap().to_owned()
}

/// Presses Tab until the focus is on what a selector names.
async fn tab_to(page: &mut Page, selector: &str) {
    let found = format!("document.activeElement.matches({selector:?})");
    for _ in 0..60 {
        page.press("Tab").await;
        if page.value(&found).await == true {
            return;
        }
    }
    panic!("Tab does not lead to {selector}");
}

async fn choose(page: &mut Page, protocol: &str) {
    page.value(&format!("document.querySelector('[value={protocol}]').click()")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contact_is_created_changed_and_deleted_by_keyboard_over_each_protocol() {
    let (app, mut page) = open(1280).await;
    assert!(text(&mut page, "health-answer").await.starts_with("healthy: 204"));
    assert_eq!(text(&mut page, "origin").await, format!("http://{}", app.address()));
    for (protocol, id, verb) in [("rest", 4, "PATCH"), ("connect", 5, "POST"), ("live", 6, "POST")]
    {
        choose(&mut page, protocol).await;
        tab_to(&mut page, "#create [name=firstName]").await;
        page.write("Ada").await;
        page.press("Tab").await;
        page.write("O'Byron").await;
        page.press("Enter").await;
        page.until(&format!("said.textContent === 'Created {id}, Ada O\\'Byron.'")).await;

        tab_to(&mut page, "#rows tr:first-child button").await;
        page.press("Enter").await;
        page.until("editor.open && document.activeElement.name === 'firstName'").await;
        page.press("Escape").await;
        page.until("!editor.open && document.activeElement.textContent === 'Edit'").await;
        page.press("Enter").await;
        page.until("editor.open").await;
        page.press("Tab").await;
        page.value("document.activeElement.select()").await;
        page.write("Lovelace").await;
        page.press("Enter").await;
        page.until(&format!("said.textContent === 'Changed {id}, Ada Lovelace.'")).await;
        let command = page.value("document.querySelector('#by-curl pre').textContent").await;
        let command = command.as_str().unwrap();
        assert!(command.contains(&format!("http://{}/contacts", app.address())), "{command}");
        assert_eq!(command.contains("-X PATCH"), verb == "PATCH", "{command}");
        let kept = app.get(&format!("/contacts/{id}")).await;
        assert!(kept.text().contains(r#""surname":"Lovelace""#), "{}", kept.text());

        page.press("Tab").await;
        page.press("Enter").await;
        page.until(&format!("said.textContent === 'Deleted {id}, Ada Lovelace.'")).await;
        assert_eq!(app.get(&format!("/contacts/{id}")).await.status, 404);
        let focus = page.value("document.activeElement.textContent").await;
        assert_eq!(focus, "Delete", "the focus goes on to the next contact");
    }
    close(app, page).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_by_the_server_and_by_the_page_when_there_is_none() {
    let (app, mut page) = open(1280).await;
    for (protocol, not_found, invalid) in [
        ("live", "not_found", "invalid_argument"),
        ("rest", "404 not_found", "400 invalid_argument"),
        ("connect", "404 not_found", "400 invalid_argument"),
    ] {
        choose(&mut page, protocol).await;
        page.value(
            "document.forms.find.elements.id.value = '99'; document.forms.find.requestSubmit()",
        )
        .await;
        page.until(&format!("wrong.textContent === '{not_found}: no contact has id 99'")).await;
        page.value("create.requestSubmit()").await;
        page.until(&format!("wrong.textContent.startsWith('{invalid}: ')")).await;
        assert!(text(&mut page, "wrong").await.contains("first"), "which field");
        page.value(
            "document.forms.find.elements.id.value = 'seven'; document.forms.find.requestSubmit()",
        )
        .await;
        page.until("wrong.textContent.includes('seven')").await;
    }
    page.value("document.querySelector('#rows button').click()").await;
    page.until("editor.open").await;
    page.value("edit.elements.firstName.value = ''; edit.requestSubmit()").await;
    page.until("document.getElementById('edit-wrong').textContent.includes('400 ')").await;
    assert_eq!(page.value("editor.open").await, true);
    page.value("cancel.click()").await;
    let names = page.value("rows.textContent").await;
    assert!(names.as_str().unwrap().contains("<b>Zoë</b>"), "a name is text: {names}");

    assert_eq!(page.faults, Vec::<String>::new());
    app.stop().await;
    page.value("create.requestSubmit()").await;
    page.until("wrong.textContent.includes('does not answer')").await;
    page.until("connection.textContent.startsWith('Not connected: ')").await;
    page.until("caption.textContent.endsWith(', as they were')").await;
    page.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_follows_what_others_change() {
    let (app, mut page) = open(1280).await;
    page.until("caption.textContent === '3 contacts from id 1, live'").await;
    let change = async |path: &str, json: &'static str| {
        let answer = app.send(Method::PATCH, path, "application/json", json).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
    };
    change("/contacts/1", r#"{"firstName": "Ada"}"#).await;
    page.until("rows.rows[0].cells[1].textContent === 'Ada'").await;
    assert_eq!(app.post("/contacts", r#"{"firstName": "Grace"}"#).await.status, 201);
    page.until("rows.rows[3]?.cells[1].textContent === 'Grace'").await;

    // One that was found stays above the others, and is followed there.
    page.value("document.forms.find.elements.id.value = '4'; document.forms.find.requestSubmit()")
        .await;
    page.until("rows.rows[0].className === 'new' && rows.rows.length === 4").await;
    change("/contacts/4", r#"{"surname": "Hopper"}"#).await;
    page.until("rows.rows[0].cells[2].textContent === 'Hopper'").await;

    // The focus stays in the table when somebody else removes its contact.
    page.value("rows.rows[0].querySelector('button:last-child').focus()").await;
    assert_eq!(app.delete("/contacts/4").await.status, 204);
    page.until("rows.rows.length === 3").await;
    let focus = page.value("document.activeElement.ariaLabel").await;
    assert_eq!(focus, "Delete Ada Ibrahim");
    close(app, page).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn echo_streams_and_every_command_that_can_be_run_answer() {
    let (app, mut page) = open(1280).await;
    page.value("echo.elements.text.value = 'a/b %'; echo.requestSubmit()").await;
    page.until("answer.textContent === 'a/b %'").await;
    page.value("stream.click()").await;
    page.until("streamed.textContent.startsWith('3 contacts in')").await;
    let run =
        "[...document.querySelectorAll('#commands button')].filter((b) => b.textContent === 'Run')";
    let count = page.value(&format!("{run}.length")).await.as_u64().unwrap();
    assert_eq!(count, 9);
    for index in 0..count {
        page.value(&format!("answer.textContent = ''; {run}[{index}].click()")).await;
        page.until("answer.textContent !== ''").await;
        let item = format!("{run}[{index}].closest('li').textContent");
        page.until(&format!("/[0-9]{{3}} /.test({item})")).await;
        let status = text(&mut page, "status").await;
        let title =
            page.value(&format!("{run}[{index}].closest('li').firstChild.textContent")).await;
        let expected = match title.as_str().unwrap() {
            "Create" => "201",
            "Delete" => "204",
            "What is wrong is said" => "400",
            // Nothing listens where the tests' relay asks.
            "Ask another service, which asks a third" => "503",
            _ => "200",
        };
        assert!(status.starts_with(expected), "{title}: {status}");
    }
    close(app, page).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_cut_off_or_nameless_on_a_phone_or_on_a_desk() {
    for width in [390, 1280] {
        let (app, mut page) = open(width).await;
        let wide = page.value("document.documentElement.scrollWidth").await.as_u64().unwrap();
        assert!(wide <= u64::from(width), "{wide} at {width}");
        let heard = page.heard().await;
        let of = |kind: &str| heard.iter().filter(|(role, _)| role == kind).collect::<Vec<_>>();
        for kind in ["button", "textbox", "radio", "region", "table", "columnheader"] {
            assert!(!of(kind).is_empty(), "no {kind}: {heard:?}");
            assert!(of(kind).iter().all(|(_, name)| !name.is_empty()), "{:?}", of(kind));
        }
        assert_eq!(of("main").len(), 1);
        let delete = ("button".to_owned(), "Delete Łukasz Ibrahim".to_owned());
        assert!(heard.contains(&delete), "{:?}", of("button"));
        close(app, page).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_policy_keeps_the_page_from_scripts_and_servers_that_are_not_its_own() {
    for refused in [
        "fetch('http://127.0.0.1:1/').catch(() => 0)",
        "document.head.append(Object.assign(document.createElement('script'), {text: 'x = 1'}))",
        "document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1:1/a.png'}))",
    ] {
        let (app, mut page) = open(1280).await;
        let seen = "document.addEventListener('securitypolicyviolation', () => document.title = 'refused')";
        page.value(seen).await;
        page.value(&format!("{refused}; 0")).await;
        page.until("document.title === 'refused'").await;
        page.close().await;
        app.stop().await;
    }
}

#[tokio::test]
async fn the_page_and_what_it_loads_have_types_and_a_policy() {
    let app = App::start().await;
    let page = app.get("/").await;
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
        assert!(page.header("content-security-policy").contains(part), "{part}");
    }
    for path in page.text().split('"').filter(|word| word.starts_with("/tour/")) {
        let file = app.get(path).await;
        assert_eq!((file.status.as_u16(), file.header("x-content-type-options")), (200, "nosniff"));
    }
    app.stop().await;
}

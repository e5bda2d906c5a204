//! Reloads: what changes, what stays.

use tidewire_mock::RuleFiles;
use tidewire_schema::Schema;
use tidewire_service::{Body, Call, Codec, Context, Service};

use crate::harness::{PRICE, SHOP, call, message, schema, sku, with_rules};

fn note(note: &str) -> RuleFiles {
    RuleFiles::new().with(PRICE, format!("responses: [{{body: {{note: {note}}}}}]"))
}

#[tokio::test(start_paused = true)]
async fn a_reload_changes_the_methods_whose_files_changed() {
    let mock = with_rules(PRICE, "responses: [{body: {note: a}}]");
    let reloaded = mock.reload(schema(), &note("a").with("shop.v1.cart.watch.yaml", "[]"));
    assert_eq!(reloaded.changed, ["/shop.v1.Cart/Watch"]);
    let reloaded = mock.reload(schema(), &note("b"));
    assert_eq!(reloaded.changed, ["/shop.v1.Cart/Price", "/shop.v1.Cart/Watch"]);
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "b");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_breaks_keeps_its_rules_and_is_named() {
    let mock = with_rules(PRICE, "responses: [{body: {note: a}}]");
    let reloaded = mock.reload(schema(), &RuleFiles::new().with(PRICE, "responses: [\n"));
    assert_eq!(reloaded.kept, [PRICE]);
    assert!(
        reloaded.findings[0].to_string().starts_with("shop.v1.cart.price.yaml:2:1: not valid YAML")
    );
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "a");
    mock.reload(schema(), &note("c"));
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "c");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_empty_while_it_is_saved_keeps_its_rules() {
    let mock = with_rules(PRICE, "responses: [{body: {note: a}}]");
    let reloaded = mock.reload(schema(), &RuleFiles::new().with(PRICE, ""));
    assert_eq!(reloaded.kept, [PRICE]);
    assert!(reloaded.findings[0].to_string().contains("is empty, so its earlier rules stay"));
    assert_eq!(message(&mock, "Price", sku("x")).await["note"], "a");
    mock.reload(schema(), &RuleFiles::new());
    assert_ne!(message(&mock, "Price", sku("x")).await["note"], "a", "it is deleted");
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_broken_at_boot_says_so_to_callers_of_its_method_only() {
    let files =
        RuleFiles::new().with(PRICE, "responses: [\n").with("shop.v1.cart.watch.yaml", "[]");
    let (mock, findings) = crate::harness::shop().rules(files).build();
    assert!(findings.iter().any(|finding| finding.is_error));
    let error = call(&mock, "Price", &[sku("x")]).await.unwrap_err();
    assert!(error.message().contains("shop.v1.cart.price.yaml:2:1"), "{error}");
    assert_eq!(crate::harness::stream(&mock, "Watch", &[sku("x")], 9).await.messages.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn another_schema_is_answered_with_and_open_streams_end_on_the_old_one() {
    let mock = with_rules(
        "shop.v1.cart.watch.yaml",
        "responses: [{stream_items: [{note: a}, {note: b}], stream_delay_ms: 1000}]",
    );
    let folder = tempfile::tempdir().unwrap();
    let text = SHOP.replace("string note = 1;", "string note = 1; string extra = 9;");
    std::fs::write(folder.path().join("shop.proto"), text).unwrap();
    let (open, ()) = tokio::join!(crate::harness::stream(&mock, "Watch", &[], 9), async {
        let files = RuleFiles::new().with(PRICE, "responses: [{body: {extra: new}}]");
        mock.reload(Schema::from_folder(folder.path()).unwrap(), &files);
    });
    assert_eq!(open.notes(), ["a", "b"]);
    assert_eq!(message(&mock, "Price", sku("x")).await["extra"], "new");
}

#[tokio::test(start_paused = true)]
async fn a_stub_is_of_the_messages_of_the_new_schema() {
    let (mock, _) = crate::harness::shop().build();
    mock.on("shop.v1.Cart/Price").reply(serde_json::json!({"note": "stub"}));
    let folder = tempfile::tempdir().unwrap();
    let text = SHOP.replace("string note = 1;", "string note = 1; string extra = 9;");
    let text = text.replace("int64 price = 2;", "").replace("string note = 1;", "string note = 2;");
    std::fs::write(folder.path().join("shop.proto"), text).unwrap();
    mock.reload(Schema::from_folder(folder.path()).unwrap(), &RuleFiles::new());
    let method = crate::harness::method(&mock, "Price");
    let call = Call::method(method, Context::default(), Codec::Proto, "");
    let Body::Full(bytes) = mock.call(call).await.unwrap().body else { panic!("one message") };
    assert_eq!(bytes, b"\x12\x04stub"[..], "the field has another number now");
}

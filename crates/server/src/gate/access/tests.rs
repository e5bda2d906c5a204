//! What rules let pass, of methods and of paths.

use super::*;
use http::{Method, Uri};
use tidewire_service::{Code, Context, HttpTarget, StreamKind};

static GET: Spec = spec("Get").access(Access::scopes(&["read"]));
static LIST: Spec = spec("List");
static CHECK: Spec =
    Spec::new(HEALTH, "Check", "/grpc.health.v1.Health/Check", StreamKind::Unary, ["a.Q", "a.R"]);

const fn spec(method: &'static str) -> Spec {
    let path = match method.as_bytes()[0] {
        b'G' => "/a.B/Get",
        _ => "/a.B/List",
    };
    Spec::new("a.B", method, path, StreamKind::Unary, ["a.Q", "a.R"])
}

#[test]
fn a_rule_for_a_path_with_percent_signs_is_refused_since_paths_are_compared_decoded() {
    for (rule, hint) in [
        ("/caf%C3%A9", "write \"/café\""),
        ("/my%20docs/*", "write \"/my docs/*\""),
        ("/x%2fy", "write \"/x/y\""),
        ("/latin/%E9", "as UTF-8"),
    ] {
        let rules = AccessRules::default().path(rule, Access::Authenticated);
        let error = rules.gate(served()).unwrap_err().to_string();
        assert!(error.contains(rule) && error.contains(hint), "{error}");
    }
    let rules = AccessRules::default().path("/100%", Access::Authenticated);
    assert!(rules.gate(served()).unwrap().is_some());
}

fn served() -> impl Iterator<Item = &'static Spec> + Clone {
    [&GET, &LIST, &CHECK].into_iter()
}

fn code(gate: &AccessGate, target: Target, scopes: Option<&[&str]>) -> Option<Code> {
    let mut head = Head::new(target, Context::default());
    let known = scopes.map(|scopes| {
        scopes.iter().fold(Principal::new("id", "ada"), |ada, scope| ada.with_scope(*scope))
    });
    head.context.set_principal(known);
    match gate.admit(&mut head) {
        Admission::Ready(decision) => decision.err().map(|error| error.code()),
        _ => panic!("it decides at once"),
    }
}

fn path(path: &'static str) -> Target {
    Target::Http(HttpTarget::new(Method::GET, Uri::from_static(path)))
}

#[test]
fn the_nearest_rule_decides() {
    let rules = || AccessRules::default().otherwise(Access::Authenticated);
    let nobody: Option<&[&str]> = None;
    let (denied, unknown) = (Some(Code::PermissionDenied), Some(Code::Unauthenticated));
    let gate = rules().gate(served()).unwrap().unwrap();
    assert_eq!(code(&gate, Target::Method((&GET).into()), nobody), unknown);
    assert_eq!(code(&gate, Target::Method((&GET).into()), Some(&[])), denied);
    assert_eq!(code(&gate, Target::Method((&GET).into()), Some(&["read"])), None);
    assert_eq!(code(&gate, Target::Method((&LIST).into()), nobody), unknown);
    assert_eq!(code(&gate, Target::Method((&CHECK).into()), nobody), None);
    assert_eq!(code(&gate, Target::Unknown("/a.B/No".into()), nobody), unknown);
    let gate =
        rules().method("a.B/*", Access::Anonymous).method("a.B/List", Access::scopes(&["x"]));
    let gate = gate.method("grpc.health.v1.Health/*", Access::Authenticated);
    let gate = gate.gate(served()).unwrap().unwrap();
    assert_eq!(code(&gate, Target::Method((&GET).into()), nobody), None);
    assert_eq!(code(&gate, Target::Method((&LIST).into()), Some(&["read"])), denied);
    assert_eq!(code(&gate, Target::Method((&CHECK).into()), nobody), unknown);
}

#[test]
fn a_slash_at_the_end_of_a_path_opens_nothing() {
    let rules = AccessRules::default()
        .otherwise(Access::Anonymous)
        .path("/admin", Access::Authenticated)
        .path("/reports/", Access::Authenticated)
        .path("/both", Access::Anonymous)
        .path("/both/", Access::Authenticated);
    let gate = rules.gate(served()).unwrap().unwrap();
    for at in [
        "/admin",
        "/admin/",
        "/admin//",
        "/admin/?x",
        "/ADMIN/",
        "/admin%2f",
        "/admin%2F/",
        "/admin;x=1/",
        "/admin/.",
        "/reports",
        "/reports/",
        "/Reports",
        "/both/",
    ] {
        assert_eq!(code(&gate, path(at), None), Some(Code::Unauthenticated), "{at}");
    }
    for at in ["/", "/both", "/admins", "/admins/", "/admin/x"] {
        assert_eq!(code(&gate, path(at), None), None, "{at}");
    }
}

#[test]
fn a_path_has_to_be_let_pass_however_it_is_read() {
    let rules = AccessRules::default().otherwise(Access::Authenticated);
    let rules =
        rules.path("/assets/*", Access::Anonymous).path("/assets/own/*", Access::scopes(&["own"]));
    let gate = rules.gate(served()).unwrap().unwrap();
    for (at, passes) in [
        ("/assets", true),
        ("/assets/a.js", true),
        ("/assetsx", false),
        ("/other", false),
        ("/assets/own/a", false),
        ("/assets/../other", false),
        ("/assets/%2e%2e/other", false),
        ("/assets/..%2fother", false),
        ("/assets/%6fwn/a", false),
        ("/assets//own/a", false),
        ("/assets/./own", false),
        ("/assets/x/..%5cown/a", false),
        ("/assets/a%20b", true),
        ("/assets/a;v=1", true),
        ("/assets/own;v=1/a", false),
        ("/assets/own%3bv=1/a", false),
        ("/assets/own;a%2fb/a", false),
        ("/assets/x/..;/own/a", false),
        ("/assets/..;v=1/other", false),
        ("/assets/%256fwn/a", false),
        ("/assets/%25252e%25252e/other", false),
        ("/assets/own%2500/a", false),
        ("/assets/own%00.js", false),
        ("/assets/own./a", false),
        ("/assets/own%20/a", false),
        ("/assets/a.js.", true),
        ("/assets/100%25", true),
        ("/assets/Own/a", false),
        ("/assets/OWN/a", false),
        ("/Assets/a.js", false),
        ("/assets/A.js", true),
        ("/assets/%4fwn/a", false),
        ("/assets/own%0a", false),
        ("/assets/o%09wn/a", false),
        ("/assets/own%0d%0a/a", false),
        ("/assets/own%3fx/a", false),
        ("/assets/own%23x", false),
        ("/assets/x/.%09./own/a", false),
        ("/assets/a%0ab", true),
        ("/assets/x/..%20/own/a", false),
        ("/assets/x/..%00/own/a", false),
        ("/assets/x/.%20./own/a", false),
        ("/assets/%20/own/a", false),
        ("/assets/%00/own/a", false),
        ("/assets/%2520/own/a", false),
        ("/assets/%20a", true),
        ("/assets//x/own/a", false),
        ("/assets///u@x:1/own/a", false),
        ("/assets/%2fx/own/a", false),
        ("/assets/%5cx/own/a", false),
        ("/assets//x/a", true),
        ("/assets/a%20/b", true),
    ] {
        assert_eq!(code(&gate, path(at), None).is_none(), passes, "{at}");
    }
}

#[test]
fn a_path_is_read_by_what_programs_do_to_it_in_any_order() {
    let rules = AccessRules::default()
        .path("/secret", Access::Authenticated)
        .path("/admin/*", Access::Authenticated)
        .path("/admin/login/*", Access::Anonymous)
        .path("/strip/admin/*", Access::Authenticated)
        .path("/strip/admin/login/*", Access::Anonymous);
    let gate = rules.gate(served()).unwrap().unwrap();
    for at in [
        // All behind it is cut off.
        "/secret%00/x",
        "/secret%00x/x/y",
        "/secret;/x",
        "/secret;x=1/x",
        "/secret%3b/x",
        "/secret%3bx/x",
        "/secret%2500/x",
        "/secret%0a/x",
        "/admin%00/login/x",
        "/admin;/login/x",
        "//secret%00/x",
        "/x/../secret%00/x",
        "/x/;/%2e./../secret%00/x",
        // Leading slashes are one, those within are as they were.
        "//admin//login/x",
        "//admin/login%2fx",
        "//admin/%5clogin/x",
        "/%5cadmin/%5clogin/x",
        "///admin//login/x",
        "//admin%2f/login/x",
        "//%61dmin/%2flogin/x",
        "//admin;/;/login/x",
        // The same without the prefix of a route.
        "/strip//admin//login/x",
        "/strip/%2fadmin/%2flogin/x",
        "/strip/..%00/admin/x",
        "/strip/x/../../admin/x",
        // Slashes stay encoded, letters do not.
        "/%61dmin/login%2fx",
        "/%61dmin%3b/login/x",
        // Dots, or spaces at the end alone, are left out.
        "/admin./login%20/x",
        "/admin%00/login./x",
    ] {
        assert_eq!(code(&gate, path(at), None), Some(Code::Unauthenticated), "{at}");
        assert_eq!(code(&gate, path(at), Some(&[])), None, "{at}");
    }
    for at in [
        "/",
        "/secrets",
        "/secret/x",
        "/admin/login",
        "/admin/login/x",
        "/admin/login/a%20b;v=1",
        "/admin/login/a%2fb%3bc",
        "/admin/login/1.2/a.js",
        "/x//y",
        "/strip/admin/login/x",
    ] {
        assert_eq!(code(&gate, path(at), None), None, "{at}");
    }
}

#[test]
fn a_path_with_too_many_readings_has_to_be_let_pass_by_every_rule() {
    let rules = AccessRules::default().path("/secret", Access::scopes(&["top"]));
    let gate = rules.gate(served()).unwrap().unwrap();
    let at = |path: &str| {
        let uri = Uri::try_from(path).unwrap();
        Target::Http(HttpTarget::new(Method::GET, uri))
    };
    let odd = "/a;b//%00./".repeat(20);
    assert_eq!(code(&gate, at(&odd), None), Some(Code::Unauthenticated));
    assert_eq!(code(&gate, at(&odd), Some(&[])), Some(Code::PermissionDenied));
    assert_eq!(code(&gate, at(&odd), Some(&["top"])), None);
    // Long paths of usual names have few.
    for usual in ["/%e6%97%a5%e6%9c%ac".repeat(500), "/a%20b,c%2c(1).txt".repeat(500)] {
        assert_eq!(code(&gate, at(&usual), None), None);
    }
}

#[test]
fn a_path_that_begins_with_a_host_is_read_without_it() {
    let rules = AccessRules::default()
        .path("/*", Access::Anonymous)
        .path("/secret", Access::Authenticated)
        .path("/strip/secret", Access::Authenticated);
    let gate = rules.gate(served()).unwrap().unwrap();
    for at in [
        "//x/secret",
        "///x/secret",
        "/%5cx/secret",
        "/%2fx/secret",
        "//public:1/secret",
        "//u@x/secret",
        "//[::1]/secret/",
        "/strip//x/secret",
    ] {
        assert!(code(&gate, path(at), None).is_some(), "{at}");
    }
    assert!(code(&gate, path("//x/other"), None).is_none());
}

#[test]
fn a_path_that_is_unclear_has_to_be_let_pass_by_every_rule() {
    let rules = AccessRules::default()
        .path("/*", Access::Anonymous)
        .path("/secret", Access::Authenticated)
        .path("/shop/top", Access::scopes(&["top"]));
    let gate = rules.gate(served()).unwrap().unwrap();
    // Where only some paths are open, what is not named is as protected.
    let rules = AccessRules::default()
        .otherwise(Access::Authenticated)
        .path("/public/*", Access::Anonymous);
    let open_in_part = rules.gate(served()).unwrap().unwrap();
    for at in [
        "/public/%252e%252e/secret",
        "/public/%2525252e%2525252e/secret",
        "/public//u%3f@h/secret",
        "/public/%09/u%3f@h/secret",
        "//public%2fpublic%3f@h/secret",
    ] {
        let unknown = Some(Code::Unauthenticated);
        assert_eq!(code(&open_in_part, path(at), None), unknown, "{at}");
        assert!(code(&open_in_part, path(at), Some(&[])).is_none(), "{at}");
    }
    assert!(code(&open_in_part, path("/public/100%25"), None).is_none());
    for at in [
        "//u%3f@h/secret",
        "//u%23@h/%73ecret",
        "/%5cu%3f@h/secret",
        "///%3f@h/secret",
        "//h%3f/secret",
        "//u%3f@h:80/x",
        "/shop//h%3f/top",
        "/%u0073ecret",
        "/%U0073ecret",
        "/%25u0073ecret",
        "/%25252573ecret",
        "/%2525252525252573ecret",
    ] {
        assert_eq!(code(&gate, path(at), None), Some(Code::Unauthenticated), "{at}");
        let denied = Some(Code::PermissionDenied);
        assert_eq!(code(&gate, path(at), Some(&[])), denied, "{at}");
        assert!(code(&gate, path(at), Some(&["top"])).is_none(), "{at}");
    }
    for at in ["/a//b", "/100%25", "/100%25off", "/c%23", "/a:b@c", "/what%3f", "/u%20ser"] {
        assert!(code(&gate, path(at), None).is_none(), "{at}");
    }
}

#[test]
fn a_name_that_begins_or_ends_with_what_programs_trim_is_read_without_it() {
    let rules = AccessRules::default()
        .path("/*", Access::Anonymous)
        .path("/secret", Access::Authenticated)
        .path("/admin/*", Access::Authenticated);
    let gate = rules.gate(served()).unwrap().unwrap();
    for at in [
        "/%20secret",
        "/%00secret",
        "/%00admin/a",
        "/secret%c2%a0",
        "/%c2%a0admin%e2%80%83/a",
        "/%ef%bb%bfsecret",
        "/secret%a0",
        "/%2520secret",
        "/x/%20../%20secret.",
    ] {
        assert!(code(&gate, path(at), None).is_some(), "{at}");
    }
    for at in ["/%20other", "/a%20secret", "/admin%20b/a"] {
        assert!(code(&gate, path(at), None).is_none(), "{at}");
    }
}

#[test]
fn letters_are_compared_as_programs_do_that_ignore_case_in_any_way() {
    let rules = AccessRules::default()
        .path("/*", Access::Anonymous)
        .path("/secret/*", Access::Authenticated)
        .path("/kiosk", Access::Authenticated)
        .path("/admin", Access::Authenticated)
        .path("/files", Access::Authenticated)
        .path("/stra\u{df}e/*", Access::Authenticated)
        .path("/\u{3c4}\u{3ad}\u{3bb}\u{3bf}\u{3c2}", Access::Authenticated)
        .path("/\u{434}\u{430}/x", Access::Authenticated);
    let gate = rules.gate(served()).unwrap().unwrap();
    for at in [
        // ſ, K, ı, İ, ﬁ
        "/%c5%bfecret/a",
        "/\u{17f}ecret/a",
        "/%e2%84%aaiosk",
        "/%25e2%2584%25aaiosk",
        "/adm%c4%b1n",
        "/ADM%C4%B0N",
        "/%ef%ac%81les",
        // ß, its capital, and what both are in capitals
        "/stra%c3%9fe/a",
        "/STRA%e1%ba%9eE/a",
        "/STRASSE/a",
        "/strasse",
        "/stra%c5%bfse/a",
        // σ at the end of a word and elsewhere
        "/%CE%A4%CE%88%CE%9B%CE%9F%CE%A3",
        "/%cf%84%ce%ad%ce%bb%ce%bf%cf%83",
        // Latin-1, twice encoded, another encoding, anything
        "/stra%dfe/a",
        "/stra%25dfe/a",
        "/stra%df%2565/a",
        "/%e4%e0/x",
        "/se%ff/a",
        "/%ff",
        "/x/%ff/../../secret/a",
    ] {
        assert!(code(&gate, path(at), None).is_some(), "{at}");
    }
    for at in [
        "/stra%c3%9fen",
        "/strase/a",
        "/caf%c3%a9",
        "/caf%e9",
        "/x/%e9",
        "/%e6%97%a5%e6%9c%ac",
        "/admin%c3%a9",
    ] {
        assert!(code(&gate, path(at), None).is_none(), "{at}");
    }
}

#[test]
fn where_nothing_is_asked_of_anybody_there_is_no_gate() {
    assert!(AccessRules::default().gate([&LIST].into_iter()).unwrap().is_none());
    assert!(AccessRules::default().gate(served()).unwrap().is_some());
}

#[test]
fn a_rule_for_what_is_not_served_says_what_is() {
    for (rule, expected) in [
        ("a.B/Gt", "auth.methods has \"a.B/Gt\", which is not served; there is a.B/Get, a.B/List"),
        ("a.C/*", "auth.methods has \"a.C/*\", which is not served; write the full name"),
    ] {
        let rules = AccessRules::default().method(rule, Access::Anonymous);
        let error = rules.gate(served()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

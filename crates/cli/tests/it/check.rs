//! `tidewire check`.

use crate::program::{command, folder, ran, run};

const GOOD: &str = r#"syntax = "proto3";
package shop.v1;
import "google/api/annotations.proto";
service Items {
  rpc Get(GetRequest) returns (Item) {
    option idempotency_level = NO_SIDE_EFFECTS;
    option (google.api.http) = { get: "/items/{id}" };
  }
}
message GetRequest { string id = 1; }
message Item { string name = 1; }
"#;

#[test]
fn what_is_right_passes() {
    let toml = "[server]\nlisten = \"127.0.0.1:0\"\n[[service]]\nproto = \"protos\"\n";
    let folder = folder(&[("protos/shop.proto", GOOD), ("tidewire.toml", toml)]);
    run(folder.path(), &["check", "protos"]).check(0, &["checked 1 file: nothing wrong"]);
    run(folder.path(), &["check", "protos/shop.proto"]).check(0, &["nothing wrong"]);
    run(folder.path(), &["check"]).check(0, &["checked 2 files: nothing wrong"]);
    let json = run(folder.path(), &["check", "--json", "protos"]);
    assert_eq!((json.code, json.stdout.as_str()), (0, ""));
}

#[test]
fn a_wrong_proto_is_shown_with_its_line_a_mark_and_the_name_that_was_meant() {
    let text = GOOD.replace("string id", "strng id").replace("(Item)", "(Itm)");
    let folder = folder(&[("protos/shop.proto", &text)]);
    run(folder.path(), &["check", "protos"]).check(
        1,
        &[
            "protos/shop.proto:5:32: error: name 'Itm' is not defined; did you mean 'Item'?\n    \
             5 |   rpc Get(GetRequest) returns (Itm) {\n      \
             |                                ^^^\n",
            "protos/shop.proto:10:22: error: name 'strng' is not defined; did you mean 'string'?",
            "checked 1 file: 2 errors",
        ],
    );
}

#[test]
fn paths_that_do_not_fit_are_found_in_the_path() {
    let text = GOOD.replace("/items/{id}", "/items/{idd}");
    let folder = folder(&[("protos/shop.proto", &text)]);
    run(folder.path(), &["check", "protos"])
        .check(1, &["protos/shop.proto:7:48: error: path \"/items/{idd}\"", "it has id"]);
    let text = GOOD.replace("/items/{id}", "/items/{id");
    let folder = crate::program::folder(&[("protos/shop.proto", &text)]);
    run(folder.path(), &["check", "protos"]).check(1, &["7:50: error: path \"/items/{id\": `}`"]);
    let both = GOOD.replace(
        "}\nmessage GetRequest",
        "  rpc Take(GetRequest) returns (Item) {\n    option (google.api.http) = { get: \"/items/{id=*}\" };\n  }\n}\nmessage GetRequest",
    );
    let folder = crate::program::folder(&[("protos/shop.proto", &both)]);
    run(folder.path(), &["check", "protos"]).check(
        1,
        &[
            "10:39: error: GET /items/{id=*} matches the same requests as GET /items/{id}",
            "10:39: warning: GET /items/{id=*} calls Take, which is not declared a query",
        ],
    );
}

#[test]
fn a_query_by_another_verb_than_get_is_a_warning_unless_strict() {
    let text = GOOD.replace("get: \"/items/{id}\"", "post: \"/items\" body: \"*\"");
    let folder = folder(&[("protos/shop.proto", &text)]);
    let warned = ["protos/shop.proto:7:40: warning: POST /items calls Get, which is a query"];
    run(folder.path(), &["check", "protos"]).check(0, &warned);
    run(folder.path(), &["check", "--strict", "protos"]).check(1, &["7:40: error: POST"]);
}

#[test]
fn every_fault_of_a_configuration_is_found_and_what_it_names_is_checked_too() {
    let toml = "[server]\nlisten = \"8080\"\nreflectoin = true\n[limits]\nstreams_max = 0\n\
                [log]\nlevel = \"info,=x\"\n[[service]]\nproto = \"protos\"\n\
                names = [\"shop.v1.Itms\"]\n[[service]]\nproto = \"none\"\n";
    let wrong = GOOD.replace("{id}", "{idd}");
    let folder = folder(&[("tidewire.toml", toml), ("protos/shop.proto", &wrong)]);
    run(folder.path(), &["check", "tidewire.toml"]).check(
        1,
        &[
            "tidewire.toml:2:10: error: \"8080\" is not an address to listen on",
            "tidewire.toml:3:1: error: unknown key reflectoin; did you mean reflection?",
            "tidewire.toml:5:15: error: limits.streams_max has to be from 1 to 4294967295",
            "tidewire.toml:7:9: error: log.level = \"info,=x\"",
            "tidewire.toml:10:10: error: protos has no service shop.v1.Itms; did you mean shop.v1.Items?",
            "tidewire.toml:12:9: error: none does not exist",
            "checked 2 files: 6 errors",
        ],
    );
}

#[test]
fn a_method_that_nobody_can_call_is_a_warning() {
    let option = "option (tidewire.v1.method) = { scopes: [\"read\"] };";
    let proto = GOOD
        .replace("import", "import \"tidewire/v1/options.proto\";\nimport")
        .replace("option idempotency_level", &format!("{option}\n    option idempotency_level"));
    let toml = "[[service]]\nproto = \"protos\"\n";
    let here = folder(&[("tidewire.toml", toml), ("protos/shop.proto", &proto)]);
    let found = ["warning: nobody can call /shop.v1.Items/Get: its rule asks for a credential"];
    run(here.path(), &["check"]).check(0, &found);
    let rule = "[auth.methods.\"shop.v1.Items/Get\"]\naccess = \"anonymous\"\n";
    let toml = format!("{toml}{rule}");
    let here = folder(&[("tidewire.toml", &toml), ("protos/shop.proto", &proto)]);
    run(here.path(), &["check"]).check(0, &["nothing wrong"]);
}

#[test]
fn a_rule_for_a_method_that_only_a_program_could_have_is_a_warning() {
    let service = "[[service]]\nname = \"echo\"\nroute = \"/*\"\n\
                   url = \"h2c://127.0.0.1:9\"\n";
    let rule = "[auth.methods.\"a.Echo/Echo\"]\naccess = \"authenticated\"\n";
    let here = folder(&[("tidewire.toml", &format!("{service}{rule}"))]);
    let found = [
        "tidewire.toml:5:15: warning: auth.methods has \"a.Echo/Echo\", and no [[service]] has it",
        "auth.paths",
    ];
    run(here.path(), &["check"]).check(0, &found);
    // A program that has it in code has no [[service]] for it.
    let here = folder(&[("tidewire.toml", rule)]);
    run(here.path(), &["check"]).check(0, &["nothing wrong"]);
}

#[test]
fn json_has_one_object_a_finding() {
    let folder = folder(&[("protos/shop.proto", &GOOD.replace("string id", "strng id"))]);
    let ran = run(folder.path(), &["check", "--json", "protos"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (
            1,
            "{\"file\":\"protos/shop.proto\",\"line\":10,\"column\":22,\"severity\":\"error\",\
             \"message\":\"name 'strng' is not defined; did you mean 'string'?\",\
             \"help\":\"correct the name, declare it, or import the file that declares it\"}\n"
        )
    );
}

#[test]
fn what_cannot_be_checked_is_no_finding() {
    let folder = folder(&[]);
    run(folder.path(), &["check", "none"]).check(2, &["none does not exist"]);
    run(folder.path(), &["check"]).check(2, &["name what to check: tidewire check my-protos"]);
}

#[test]
fn rules_that_do_not_compile_or_say_nothing_are_found() {
    let text = "syntax = \"proto3\";\nimport \"buf/validate/validate.proto\";\n\
                import \"google/api/field_behavior.proto\";\nmessage A {\n  \
                string s = 1 [(buf.validate.field).int32.gt = 1];\n  \
                int32 n = 2 [(google.api.field_behavior) = REQUIRED];\n}\n";
    let folder = folder(&[("protos/a.proto", text)]);
    run(folder.path(), &["check", "protos"]).check(
        1,
        &[
            "protos/a.proto:5:17: error: rule of A.s: these rules are not for a field of type string",
            "protos/a.proto:6:16: warning: rule of A.n: REQUIRED says nothing here",
            "write `optional` before the type of the field",
        ],
    );
}

/// A configuration that `check` and `serve` both have to refuse, with this text.
#[track_caller]
fn refused(toml: &str, proto: &str, expected: &str, in_check: &str) {
    let toml = format!("[server]\nlisten = \"127.0.0.1:0\"\n{toml}");
    let folder = folder(&[("tidewire.toml", &toml), ("protos/shop.proto", proto)]);
    run(folder.path(), &["serve"]).check(2, &[expected]);
    run(folder.path(), &["check", "tidewire.toml"]).check(1, &[in_check]);
}

#[test]
fn what_serve_refuses_is_found_by_check() {
    let service = "[[service]]\nproto = \"protos\"\n";
    let upstream = format!("{service}backend = \"upstream\"\n");
    refused(&upstream, GOOD, "service.url is missing", "tidewire.toml:4:9: error: service.url");
    let bad = format!("{upstream}url = \"ftp://a/b\"\n");
    refused(&bad, GOOD, "service.url: ", "tidewire.toml:6:7: error: service.url: ");
    let nope = format!("{service}[rest.services.\"c.v1.Nope\"]\nnames = \"json\"\n");
    refused(&nope, GOOD, "c.v1.Nope", "tidewire.toml:5:16: error: ");
    let other = format!("{service}[memo.methods.\"shop.v1.Items/Gt\"]\nttl = \"1m\"\n");
    let known = "which is not served; there is shop.v1.Items/Get";
    refused(
        &other,
        GOOD,
        known,
        "tidewire.toml:5:15: error: memo.methods has \"shop.v1.Items/Gt\"",
    );
    let lives = format!("{service}[memo.methods.\"shop.v1.Items/Get\"]\nttl = \"1m\"\n");
    refused(
        &lives,
        GOOD,
        "sets ttl and is not cached",
        "tidewire.toml:5:15: error: memo.methods has",
    );
    let command = GOOD.replace("    option idempotency_level = NO_SIDE_EFFECTS;\n", "");
    let get = format!("{service}[memo.methods.\"shop.v1.Items/Get\"]\nttl = \"1m\"\n");
    refused(&get, &command, "is a command", "tidewire.toml:5:15: error: memo.methods has");
    let zero = format!("{service}[limits]\nstream_window_bytes = 2147483648\n");
    let range = "limits.stream_window_bytes has to be from 1 to 2147483647 bytes";
    refused(&zero, GOOD, range, &format!("tidewire.toml:6:23: error: {range}"));
}

#[test]
fn terms_for_methods_of_a_program_with_services_in_code_are_not_doubted() {
    let toml = "[memo.methods.\"shop.v1.Items/Get\"]\ncache = \"public\"\n\
                [auth.methods.\"shop.v1.Items/Set\"]\naccess = \"authenticated\"\n";
    let folder = folder(&[("tidewire.toml", toml)]);
    run(folder.path(), &["check"]).check(0, &["checked 1 file: nothing wrong"]);
}

/// Two sources of three tables.
const CAPTURED: &str = "[oplog]\nurl = \"postgres://shop@localhost/shop\"\n\
    [[oplog.capture]]\ntable = \"item\"\nsource = \"items\"\nkey = [\"id\"]\n\
    [[oplog.capture]]\ntable = \"price\"\nsource = \"items\"\nkey = [\"item\"]\n\
    [[oplog.capture]]\ntable = \"cart\"\nsource = \"orders\"\nkey = [\"id\"]\n";

#[test]
fn a_change_log_in_a_file_that_cannot_be_written_is_refused() {
    let toml = "[oplog]\nurl = \"sqlite:shop.sqlite\"\n[server]\nlisten = \"127.0.0.1:0\"\n\
                [[service]]\nproto = \"protos\"\nbackend = \"upstream\"\nurl = \"http://127.0.0.1:1\"\n";
    let folder = folder(&[("tidewire.toml", toml), ("protos/shop.proto", GOOD)]);
    // It may be made before the start.
    run(folder.path(), &["check"]).check(0, &["nothing wrong"]);
    let path = folder.path().join("shop.sqlite");
    std::fs::write(&path, empty_database(1)).unwrap();
    run(folder.path(), &["check"]).check(0, &["nothing wrong"]);
    // A file that root cannot write either.
    std::fs::write(&path, empty_database(3)).unwrap();
    let refused = "shop.sqlite cannot be written, and the change log in it has to be";
    let help = "let the user that runs this write to the file and its folder";
    run(folder.path(), &["serve"]).check(2, &[refused, help]);
    let place = format!("tidewire.toml:2:7: error: oplog.url: {refused}");
    run(folder.path(), &["check"]).check(1, &[&place, help]);
    let mut check = command(folder.path(), &["check"]);
    check.env("TIDEWIRE_OPLOG_INSTALL", "false");
    ran(check.output().unwrap()).check(0, &["nothing wrong"]);
}

/// A SQLite file without tables. SQLite only reads those whose format to write is over 2.
fn empty_database(write_format: u8) -> Vec<u8> {
    let mut page = vec![0; 512];
    page[..16].copy_from_slice(b"SQLite format 3\0");
    // Its pages have 512 bytes and there is 1 of them; fractions; the root of the schema, a leaf.
    page[16..24].copy_from_slice(&[2, 0, write_format, 1, 0, 64, 32, 32]);
    (page[27], page[31], page[47], page[59], page[95]) = (1, 1, 4, 1, 1);
    page[100..107].copy_from_slice(&[13, 0, 0, 0, 0, 2, 0]);
    page
}

#[test]
fn how_soon_a_change_is_noticed_is_said_by_the_settings() {
    let cached = GOOD
        .replace("import \"google", "import \"tidewire/v1/options.proto\";\nimport \"google")
        .replace(
            "    option (google",
            "    option (tidewire.v1.method) = { cache: PUBLIC };\n    option (google",
        );
    for (memo, said) in [
        ("", "1 method is cached: what another process changes is noticed within 5 s"),
        ("[memo]\nsingle_writer = true\n", "1 method is cached: until this program changes what"),
        (
            CAPTURED,
            "1 method is cached: who changes items, orders is noticed at once (oplog.capture)",
        ),
        ("[memo]\nenabled = false\n", "1 method is cached, but not while memo.enabled = false"),
    ] {
        let toml = format!("[[service]]\nproto = \"protos\"\n{memo}");
        let folder = folder(&[("protos/shop.proto", &cached), ("tidewire.toml", &toml)]);
        run(folder.path(), &["check"]).check(0, &[said]);
    }
}

#[test]
fn a_single_writer_beside_a_change_log_is_doubted() {
    let single = format!("{CAPTURED}[memo]\nsingle_writer = true\n");
    for (toml, said) in [
        (
            single.clone(),
            "warning: memo.single_writer = true beside [oplog]: replies that depend on",
        ),
        (single.replace("[oplog]\n", "[oplog]\nenabled = false\n"), "nothing wrong"),
        (CAPTURED.to_owned(), "nothing wrong"),
    ] {
        let folder = folder(&[("tidewire.toml", &toml)]);
        run(folder.path(), &["check"]).check(0, &[said]);
    }
}

#[test]
fn what_the_environment_sets_is_checked_as_if_the_file_set_it() {
    let doubt = "tidewire.toml: warning: memo.single_writer = true beside [oplog]: replies that";
    let service = "[[service]]\nproto = \"protos\"\n[limits]\nstreams_max = 0\n";
    let tls = "[server.tls]\ncertificate = \"tidewire.toml\"\n";
    for (toml, variable, value, code, said) in [
        (CAPTURED, "MEMO_SINGLE_WRITER", "true", 0, doubt),
        (CAPTURED, "OPLOG_ENABLED", "false", 0, "nothing wrong"),
        (
            CAPTURED,
            "OPLOG_URL",
            "mysql://x",
            1,
            "TIDEWIRE_OPLOG_URL: error: oplog.url is neither postgres://user@host/name nor",
        ),
        (service, "LIMITS_STREAMS_MAX", "9", 0, "checked 2 files: nothing wrong"),
        (
            service,
            "LIMITS_STREAMS_MAX",
            "many",
            1,
            "TIDEWIRE_LIMITS_STREAMS_MAX: error: invalid type: string \"many\", expected a whole number",
        ),
        (
            "",
            "LIMITS_STREAM_MAX",
            "9",
            1,
            "TIDEWIRE_LIMITS_STREAM_MAX: error: unknown variable TIDEWIRE_LIMITS_STREAM_MAX; did you mean TIDEWIRE_LIMITS_STREAMS_MAX?",
        ),
        (
            tls,
            "SERVER_TLS_KEY",
            "none.key",
            1,
            "TIDEWIRE_SERVER_TLS_KEY: error: none.key does not exist",
        ),
        (
            "",
            "SERVER_TLS_KEY",
            "none.key",
            1,
            "TIDEWIRE_SERVER_TLS_KEY: error: missing field `certificate`",
        ),
        ("", "LOG_LEVEL", "ifno", 1, "TIDEWIRE_LOG_LEVEL: error: log.level = \"ifno\""),
    ] {
        let folder = folder(&[("tidewire.toml", toml), ("protos/shop.proto", GOOD)]);
        let mut check = command(folder.path(), &["check", "tidewire.toml"]);
        check.env(format!("TIDEWIRE_{variable}"), value);
        ran(check.output().unwrap()).check(code, &[said]);
    }
    // Where there is no file, `serve` goes by the environment all the same.
    let folder = folder(&[("protos/shop.proto", GOOD)]);
    let mut check = command(folder.path(), &["check"]);
    check.env("TIDEWIRE_LIMITS_STREAMS_MAX", "0");
    let said = "TIDEWIRE_LIMITS_STREAMS_MAX: error: limits.streams_max has to be from 1";
    ran(check.output().unwrap()).check(1, &[said]);
}

#[test]
fn a_service_that_every_server_has_is_refused_by_check_as_by_serve() {
    let health = "syntax = \"proto3\";\npackage grpc.health.v1;\n\
                  service Health { rpc Check(A) returns (A); }\nmessage A {}\n";
    let folder = folder(&[("protos/grpc/health/v1/health.proto", health)]);
    let twice = "method /grpc.health.v1.Health/Check is served twice";
    run(folder.path(), &["serve", "protos", "--port", "0"]).check(2, &[twice]);
    run(folder.path(), &["check", "protos"]).check(1, &[&format!("protos: error: {twice}")]);
}

#[test]
fn a_level_of_the_log_that_is_none_is_refused_by_check_and_by_serve() {
    for level in ["ifno", "", "info,,", "info=x"] {
        let toml = format!("[log]\nlevel = \"{level}\"\n");
        let folder = folder(&[("tidewire.toml", &toml), ("shop.proto", GOOD)]);
        let expected = format!("log.level = \"{level}\": ");
        run(folder.path(), &["check"])
            .check(1, &[&expected, "off, error, warn, info, debug, trace"]);
        run(folder.path(), &["serve", "shop.proto", "--port", "0"]).check(2, &[&expected]);
    }
}

#[test]
fn what_a_terminal_would_act_on_is_escaped_in_findings() {
    let toml =
        "[server]\n\"lis\\u001bten\\u009b\" = 1\n# \u{1b}[2J\n[log]\naccess = \"a\u{9b}b\"\n";
    let proto = GOOD.replace("string id", "strng\u{1b}]0;pwn\u{7} id");
    let folder = folder(&[("tidewire.toml", toml), ("protos/shop.proto", &proto)]);
    for arguments in [&["check"][..], &["check", "--json"]] {
        let ran = run(folder.path(), arguments);
        ran.check(1, &["tidewire.toml", "shop.proto"]);
        let acts = |c: &char| c.is_control() && !"\n\t".contains(*c);
        let found = ran.stdout.chars().find(acts);
        assert_eq!(found, None, "{:?}", ran.stdout);
    }
}

//! What is said about sources that do not compile.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tidewire_proto::{FILE_BYTES_MAX, Sources};

/// Writes `files`, compiles the folder `protos`, and compares the first diagnostic, its next step
/// apart. `@` in a text is the place that the diagnostic has to point at.
fn check(files: &[(&str, &str)], expected: &str) {
    let folder = write(files);
    let place = files.iter().find_map(|(name, text)| {
        let before = &text[..text.find('@')?];
        let line = before.matches('\n').count() + 1;
        Some((*name, line, before.rsplit('\n').next().unwrap_or_default().len() + 1))
    });
    let expected = match place {
        Some((name, line, column)) => format!("{name}:{line}:{column}: {expected}"),
        None => expected.to_owned(),
    };
    let found = compile(&folder, Sources::new().folder(folder.path().join("protos")));
    assert!(found.starts_with(&expected), "\nexpected {expected}\nfound    {found}");
    assert!(found.contains("\n  next step: "), "no next step: {found}");
}

fn write(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace('@', "")).unwrap();
    }
    folder
}

/// The diagnostics, with the temporary folder cut off.
fn compile(folder: &TempDir, sources: Sources) -> String {
    let diagnostics = sources.compile().expect_err("the sources are wrong");
    format!("{diagnostics}").replace(&format!("{}/", folder.path().display()), "")
}

#[test]
fn a_wrong_file_is_pointed_at() {
    let proto3 = |rest: &str| format!("syntax = \"proto3\";\npackage shop;\n{rest}");
    let check = |rest: &str, expected| check(&[("protos/a.proto", &proto3(rest))], expected);
    check("message A {\n  @Foo foo = 1;\n}", "name 'Foo' is not defined");
    check("message A {\n  string a = 1\n@}", "expected ");
    check("message A {\n  string a = 1;@", "expected a message field");
    check("message A {\n  int32 a = 1;\n  int32 b = @1;\n}", "field number '1' is already used");
    check("message A {}\nmessage @A {}", "name 'shop.A' is defined twice");
    check("message A { @required int32 a = 1; }", "required fields are not allowed in proto3");
    check("message A { int32 a = @0; }", "message numbers must be between 1 and");
    check("enum E { A = @1; }", "the first value for proto3 enums must be 0");
    check("@import \"none.proto\";", "import 'none.proto' not found");
    check("import @\"../b.proto\";", "invalid import path");
    check(
        "import \"google/protobuf/empty.proto\";\n@import \"google/protobuf/empty.proto\";",
        "import 'google/protobuf/empty.proto' is listed twice",
    );
    check(
        "message A {} service S { rpc M(A) returns (A) { @option (no.such) = 1; } }",
        "name 'no.such' is not defined",
    );
    check("message A { string a = 1 [@(b) = \"ü\"]; }", "name 'b' is not defined");
}

#[test]
fn a_name_that_is_nearly_right_is_answered_with_the_right_one() {
    let check = |rest: &str, expected: &str, help: &str| {
        let text = format!("syntax = \"proto3\";\npackage shop;\nmessage Item {{}}\n{rest}");
        check(&[("protos/a.proto", &text), ("protos/b/b.proto", "")], expected);
        let folder = write(&[("protos/a.proto", &text), ("protos/b/b.proto", "")]);
        let found = compile(&folder, Sources::new().folder(folder.path().join("protos")));
        assert!(found.ends_with(help), "{found}");
    };
    let correct = "correct the name, declare it, or import the file that declares it";
    check("message A { @Itm i = 1; }", "name 'Itm' is not defined; did you mean 'Item'?", correct);
    check("message A { @strng s = 1; }", "name 'strng' is not defined; did you mean 'string'?", "");
    check(
        "message A { @google.protobuf.Timestamp t = 1; }",
        "name 'google.protobuf.Timestamp' is not defined",
        "next step: add `import \"google/protobuf/timestamp.proto\";`",
    );
    check(
        "message A { @google.protobuf.Durtion t = 1; }",
        "name 'google.protobuf.Durtion' is not defined; did you mean 'google.protobuf.Duration'?",
        "next step: correct the name, and add `import \"google/protobuf/duration.proto\";`",
    );
    check("@import \"b.proto\";", "import 'b.proto' not found; did you mean 'b/b.proto'?", "");
    let method = |option: &str| {
        format!("service S {{ rpc M(Item) returns (Item) {{ @option {option}; }} }}")
    };
    check(
        &method("idempotency_levl = IDEMPOTENT"),
        "option field 'idempotency_levl' is not defined; did you mean 'idempotency_level'?",
        "",
    );
    check(
        &format!(
            "import \"google/api/annotations.proto\"; {}",
            method("(google.api.http) = { gett: \"/\" }")
        ),
        "invalid value of type 'google.api.HttpRule' for option '(google.api.http)': field 'gett' not found for message 'google.api.HttpRule'; did you mean 'get'?",
        "",
    );
}

#[test]
fn an_edition_after_2023_is_sent_to_descriptor_sets() {
    let text = "// A comment.\n\n@edition = \"2024\";\nmessage A {}";
    check(
        &[("protos/a.proto", text)],
        "edition \"2024\" cannot be read from text\n  next step: give a descriptor set instead: `buf build -o x.binpb`",
    );
}

#[test]
fn options_that_make_no_sense_are_refused_at_their_place() {
    let check = |option: &str, expected: &str| {
        let text = format!(
            "syntax = \"proto3\";\nimport \"tidewire/v1/options.proto\";\nmessage A {{}}\n\
             service S {{\n  rpc M(A) returns (A) {{\n    {option}\n  }}\n}}"
        );
        check(&[("protos/a.proto", &text)], &format!("(tidewire.v1.method): {expected}"));
    };
    let query = "option idempotency_level = NO_SIDE_EFFECTS;";
    check("@option (tidewire.v1.method).ttl = { seconds: 1 };", "`ttl` needs `cache`");
    check("@option (tidewire.v1.method).immutable = true;", "`immutable` needs `cache`");
    check("@option (tidewire.v1.method).http_status = 404;", "`http_status: 404` is not in");
    check("@option (tidewire.v1.method).cache = PUBLIC;", "`cache` needs a query");
    check(&format!("{query} @option (tidewire.v1.method).cache = VARY;"), "`cache: VARY` needs");
    check(&format!("{query} @option (tidewire.v1.method) = {{ vary: \"a\" }};"), "`vary` is read");
    check(
        &format!("{query} @option (tidewire.v1.method) = {{ cache: VARY vary: \"A b\" }};"),
        "`vary: \"A b\"` is not a header",
    );
    check(
        &format!("{query} @option (tidewire.v1.method).ttl = {{ seconds: -1 }};"),
        "`ttl` has to be",
    );
    check("@option (tidewire.v1.method).max_age = { seconds: 1 };", "`max_age` needs `cache`");
    check(
        &format!("{query} @option (tidewire.v1.method).stale_if_error = {{ nanos: 5 }};"),
        "`stale_if_error` has to be whole seconds",
    );
    for access in ["access: AUTHENTICATED", "scopes: \"read\""] {
        check(
            &format!("{query} @option (tidewire.v1.method) = {{ cache: PUBLIC {access} }};"),
            "`cache: PUBLIC` gives replies to everybody, and not everybody may call",
        );
    }
}

#[test]
fn an_option_of_the_wrong_type_says_which_field() {
    let text = "syntax = \"proto3\";\nimport \"tidewire/v1/options.proto\";\nmessage A {}\n\
        service S { rpc M(A) returns (A) { @option (tidewire.v1.method) = { scope: NOBODY }; } }";
    check(&[("protos/a.proto", text)], "invalid value of type 'tidewire.v1.MethodOptions'");
}

#[test]
fn imports_in_a_circle_are_shown_whole() {
    check(
        &[
            ("protos/a.proto", "import \"b.proto\";"),
            ("protos/b.proto", "import \"c.proto\";"),
            ("protos/c.proto", "@import \"a.proto\";"),
        ],
        "imports run in a circle: a.proto -> b.proto -> c.proto -> a.proto",
    );
    check(
        &[("protos/a.proto", "@import \"a.proto\";")],
        "imports run in a circle: a.proto -> a.proto",
    );
}

#[test]
fn every_wrong_file_is_reported() {
    let folder = write(&[
        ("p/a.proto", "message A { B b = 1; }"),
        ("p/b.proto", "mesage B {}"),
        ("p/c.proto", "import \"d.proto\";"),
    ]);
    let found = compile(&folder, Sources::new().folder(folder.path().join("p")));
    let places: Vec<&str> = found.lines().filter(|line| line.starts_with("p/")).collect();
    assert_eq!(places.len(), 3, "{found}");
    assert!(places[0].starts_with("p/a.proto:1:13: "), "{found}");
    assert!(places[1].starts_with("p/b.proto:1:1: "), "{found}");
    assert!(places[2].starts_with("p/c.proto:1:1: "), "{found}");
}

#[test]
fn files_that_import_a_wrong_one_do_not_repeat_its_errors() {
    let folder = write(&[
        ("p/a.proto", "syntax = \"proto3\";\nmessage A { B b = 1; }"),
        ("p/c.proto", "syntax = \"proto3\";\nimport \"a.proto\"; message C { A a = 1; }"),
    ]);
    let found = compile(&folder, Sources::new().folder(folder.path().join("p")));
    assert_eq!(found.lines().count(), 2, "{found}");
}

#[test]
fn paths_that_name_nothing_useful_are_refused() {
    let folder = write(&[("p/a.proto", ""), ("q/a.proto", ""), ("o/b.proto", ""), ("e/x.txt", "")]);
    let at = |path: &str| folder.path().join(path);
    let p = || Sources::new().include(at("p"));
    let check = |sources: Sources, expected: &str| {
        let found = compile(&folder, sources);
        assert!(found.starts_with(expected), "\nexpected {expected}\nfound    {found}");
    };
    check(p().file(at("p/none.proto")), "p/none.proto: no such file");
    check(p().file(at("o/b.proto")), "o/b.proto: this file is outside every include (");
    check(p().file(at("p/../o/b.proto")), "p/../o/b.proto: this file is outside every include (");
    check(p().file(at("p")), "p: not a file");
    check(p().include(at("q")).file(at("q/a.proto")), "q/a.proto: ");
    check(Sources::new().folder(at("e")), "e: no .proto file in this folder");
    check(Sources::new().folder(at("none")), "none: this include is not a folder");
    check(Sources::new().folder(at("p")).folder(at("q")), "q/a.proto: ");
    check(Sources::new().descriptor_set(at("none")), "none: cannot be read");
    check(
        Sources::new().descriptor_set(at("e/x.txt")),
        "e/x.txt: not an encoded FileDescriptorSet",
    );
    check(Sources::new(), "sources: nothing to compile");
}

#[test]
fn a_file_reached_under_two_names_is_refused() {
    let folder = write(&[("p/q/a.proto", "message A {}")]);
    let sources = Sources::new().folder(folder.path().join("p")).folder(folder.path().join("p/q"));
    let found = compile(&folder, sources);
    assert!(found.contains("this file is reached as 'a.proto' and as 'q/a.proto'"), "{found}");
}

#[test]
fn what_is_too_large_or_no_text_is_refused() {
    let folder = write(&[]);
    let file = folder.path().join("a.proto");
    let check = |content: &[u8], expected: &str| {
        fs::write(&file, content).unwrap();
        let found = compile(&folder, Sources::new().file(&file));
        assert!(found.starts_with(expected), "\nexpected {expected}\nfound    {found}");
    };
    let too_large = usize::try_from(FILE_BYTES_MAX).unwrap() + 1;
    check(&vec![b' '; too_large], "a.proto: the file has more than 8388608 bytes");
    check(b"syntax = \"proto3\";\n// \xff", "a.proto:2:4: not UTF-8 text");
}

#[test]
fn deep_nesting_ends_in_a_diagnostic() {
    let messages = format!("{}{}", "message A {".repeat(5_000), "}".repeat(5_000));
    check(&[("protos/a.proto", &messages)], "protos/a.proto:1:");
    for [open, close] in [["a {", "}"], ["a: [", "]"], ["a: <", ">"]] {
        let value = format!("{}{}", open.repeat(50_000), close.repeat(50_000));
        let text = format!(
            "import \"tidewire/v1/options.proto\"; message A {{}} service S {{ \
             rpc M(A) returns (A) {{ option (tidewire.v1.method) = {{ {value} }}; }} }}"
        );
        check(&[("protos/a.proto", &text)], "protos/a.proto:1:");
    }
    let with_option = |option: &str| {
        format!(
            "import \"tidewire/v1/options.proto\";\nmessage A {{}}\nservice S {{\n  \
             rpc M(A) returns (A) {{\n    option {option};\n  }}\n}}"
        )
    };
    let text = with_option(&format!("(a) = {{\n{}{}}}", "a {".repeat(4_000), "}".repeat(4_000)));
    check(&[("protos/a.proto", &text)], "protos/a.proto:6:186: brackets are nested more than 64");
    let text = with_option(&format!("(a){} = 1", ".a".repeat(20_000)));
    check(&[("protos/a.proto", &text)], "protos/a.proto:5:141: a name of more than 64 parts");
    let chain: Vec<(String, String)> = (0..400)
        .map(|n| (format!("protos/{n:03}.proto"), format!("import \"{:03}.proto\";", n + 1)))
        .chain([("protos/400.proto".to_owned(), String::new())])
        .collect();
    let chain: Vec<_> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    check(&chain, "000.proto: imports lead more than 256 files deep");
}

#[test]
fn debug_is_as_readable_as_display() {
    let missing = Sources::new().file(Path::new("none.proto")).compile().expect_err("missing");
    assert_eq!(format!("{missing:?}"), format!("{missing}"));
}

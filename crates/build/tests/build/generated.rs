//! What is generated from what, without compiling it: that is done in the package
//! `tests/generated`.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use tidewire_build::Config;

fn write(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

/// The code of `package`, generated from the folder `p` of `files`.
fn generate(files: &[(&str, &str)], package: &str) -> String {
    let folder = write(files);
    let out = folder.path().join("out");
    Config::new().folder(folder.path().join("p")).out_dir(&out).compile().unwrap();
    fs::read_to_string(out.join(format!("tidewire/{package}.rs"))).unwrap()
}

fn files_below(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

const SHOP: &str = "syntax = \"proto3\"; package shop.v1;
    import \"google/protobuf/timestamp.proto\";
    import \"google/api/annotations.proto\";
    import \"tidewire/v1/options.proto\";
    message Contact { string id = 1; google.protobuf.Timestamp at = 2; oneof a { int64 b = 3; } }
    service Shop { rpc Get(Contact) returns (stream Contact); }";

#[test]
fn generated_code_names_nothing_but_the_runtime_path_and_std() {
    let code = generate(&[("p/shop.proto", SHOP)], "shop.v1");
    let mut roots: Vec<String> = roots(code.parse().unwrap());
    roots.sort();
    roots.dedup();
    assert_eq!(roots, ["core", "std", "tidewire"]);
    assert!(!code.contains("connectrpc"));
    for string in code.split('"').skip(1).step_by(2).filter(|string| string.starts_with("::")) {
        assert!(string.starts_with("::tidewire::generated::"), "{string}");
    }
}

/// The crates that paths with a leading `::` begin with.
fn roots(tokens: proc_macro2::TokenStream) -> Vec<String> {
    use proc_macro2::{Spacing, TokenTree};
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (index, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(roots(group.stream())),
            TokenTree::Ident(ident) if index >= 2 => {
                let is_colon =
                    |at: usize| matches!(&tokens[at], TokenTree::Punct(p) if p.as_char() == ':');
                let goes_on = index >= 3
                    && match &tokens[index - 3] {
                        TokenTree::Ident(before) => {
                            !["for", "as", "use", "impl"].iter().any(|word| before == word)
                        }
                        TokenTree::Punct(punct) => {
                            punct.as_char() == '>' && punct.spacing() == Spacing::Joint
                        }
                        _ => false,
                    };
                if is_colon(index - 1) && is_colon(index - 2) && !goes_on {
                    found.push(ident.to_string());
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn a_service_becomes_a_trait_a_server_a_client_and_specs() {
    let code = generate(&[("p/shop.proto", SHOP)], "shop.v1");
    let file = syn::parse_file(&code).unwrap();
    let has = |wanted: &str| {
        file.items.iter().any(|item| match item {
            syn::Item::Trait(item) => format!("trait {}", item.ident) == wanted,
            syn::Item::Struct(item) => format!("struct {}", item.ident) == wanted,
            syn::Item::Mod(item) => format!("mod {}", item.ident) == wanted,
            _ => false,
        })
    };
    for wanted in [
        "struct Contact",
        "trait Shop",
        "trait ShopPartial",
        "struct ShopServer",
        "struct ShopClient",
        "mod shop",
    ] {
        assert!(has(wanted), "no {wanted}");
    }
}

#[test]
fn one_file_includes_all_packages_and_the_descriptor_set() {
    let folder = write(&[
        ("p/shop.proto", SHOP),
        ("p/a.proto", "syntax = \"proto3\"; package type; message A {}"),
        ("p/b.proto", "syntax = \"proto3\"; message B {}"),
    ]);
    let out = folder.path().join("out");
    let config = Config::new().folder(folder.path().join("p")).out_dir(&out);
    config.compile().unwrap();
    assert_eq!(files_below(&out), ["tidewire", "tidewire.binpb", "tidewire.rs"]);
    assert_eq!(files_below(&out.join("tidewire")), ["_.rs", "shop.v1.rs", "type.rs"]);
    let code = fs::read_to_string(out.join("tidewire.rs")).unwrap();
    let code: Vec<&str> = code.lines().map(str::trim).collect();
    for line in [
        "pub const DESCRIPTOR_SET: &[u8] = include_bytes!(\"tidewire.binpb\");",
        "include!(\"tidewire/_.rs\");",
        "pub mod shop {",
        "pub mod v1 {",
        "pub mod r#type {",
    ] {
        assert!(code.contains(&line), "no line {line}");
    }
    config.name("other").compile().unwrap();
    assert!(out.join("other.rs").is_file());
    assert!(
        config_error(Config::new().folder(folder.path().join("p")).out_dir(&out).name("a/b"))
            .contains("the name \"a/b\"")
    );
}

fn config_error(config: Config) -> String {
    config.compile().expect_err("the configuration is wrong").to_string()
}

#[test]
fn a_file_that_is_as_it_should_be_is_left_alone() {
    let folder = write(&[("p/shop.proto", SHOP)]);
    let out = folder.path().join("out");
    let config = Config::new().folder(folder.path().join("p")).out_dir(&out);
    config.compile().unwrap();
    let file = fs::File::options().append(true).open(out.join("tidewire/shop.v1.rs")).unwrap();
    let long_ago = std::time::SystemTime::UNIX_EPOCH;
    file.set_modified(long_ago).unwrap();
    config.compile().unwrap();
    assert_eq!(file.metadata().unwrap().modified().unwrap(), long_ago);
}

#[test]
fn only_files_whose_types_are_used_are_generated() {
    let folder = write(&[
        (
            "p/a.proto",
            "syntax = \"proto3\"; package a; import \"b.proto\"; import \"options.proto\";
            import \"google/api/httpbody.proto\"; import \"google/api/annotations.proto\";
            message A { b.B b = 1 [(o.note) = \"x\"]; google.api.HttpBody body = 2; }",
        ),
        (
            "p/b.proto",
            "syntax = \"proto3\"; package b; import \"c.proto\"; message B { repeated c.C.D d = 1; }",
        ),
        (
            "p/c.proto",
            "syntax = \"proto3\"; package c; message C { enum D { D_UNSPECIFIED = 0; } }",
        ),
        (
            "p/options.proto",
            "syntax = \"proto3\"; package o; import \"google/protobuf/descriptor.proto\";
            extend google.protobuf.FieldOptions { string note = 50001; }",
        ),
    ]);
    let out = folder.path().join("out");
    let config = || Config::new().include(folder.path().join("p")).file("a.proto").out_dir(&out);
    config().compile().unwrap();
    assert_eq!(files_below(&out.join("tidewire")), ["a.rs", "b.rs", "c.rs", "google.api.rs"]);
    let out = folder.path().join("extern");
    config().out_dir(&out).extern_path("b", "::other::b").compile().unwrap();
    assert_eq!(files_below(&out.join("tidewire")), ["a.rs", "google.api.rs"]);
    let code = fs::read_to_string(out.join("tidewire/a.rs")).unwrap();
    assert!(code.contains("::other::b::B"), "{code}");
}

#[test]
fn bytes_are_shared_where_that_is_asked_for() {
    let text =
        "syntax = \"proto3\"; package s; message A { bytes b = 1; map<string, bytes> c = 2; }";
    let folder = write(&[("p/a.proto", text)]);
    let out = folder.path().join("out");
    let config = Config::new().folder(folder.path().join("p")).out_dir(&out);
    let code = || fs::read_to_string(out.join("tidewire/s.rs")).unwrap();
    config.compile().unwrap();
    assert!(
        code().contains("pub b: ::tidewire::generated::buffa::alloc::vec::Vec<u8>"),
        "{}",
        code()
    );
    config.shared_bytes().compile().unwrap();
    assert!(code().contains("pub b: ::tidewire::generated::buffa::bytes::Bytes"), "{}", code());
}

#[test]
fn an_edition_is_generated_from_a_descriptor_set() {
    let folder = write(&[(
        "p/a.proto",
        "syntax = \"proto3\"; package ed; message A { int32 id = 1; }
        service S { rpc Get(A) returns (A); }",
    )]);
    let compiled =
        tidewire_proto::Sources::new().folder(folder.path().join("p")).compile().unwrap();
    // `syntax = "proto3"` becomes `syntax = "editions"`, `edition = EDITION_2023`.
    let file = compiled.files()[0].bytes();
    let at = file.windows(8).position(|bytes| bytes == b"\x62\x06proto3").unwrap();
    let mut edition = file[..at].to_vec();
    edition.extend(b"\x62\x08editions\x70\xe8\x07");
    edition.extend(&file[at + 8..]);
    let length = edition.len();
    let mut set =
        vec![0x0a, u8::try_from(length & 0x7f | 0x80).unwrap(), u8::try_from(length >> 7).unwrap()];
    set.extend(edition);
    let path = folder.path().join("ed.binpb");
    fs::write(&path, set).unwrap();
    let out = folder.path().join("out");
    Config::new().descriptor_set(&path).out_dir(&out).compile().unwrap();
    let code = fs::read_to_string(out.join("tidewire/ed.rs")).unwrap();
    // Presence is explicit in edition 2023.
    assert!(code.contains("pub id: ::core::option::Option<i32>"), "{code}");
}

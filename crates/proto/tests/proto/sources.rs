//! What compiles, and what it compiles to.

use std::fs;
use std::path::Path;
use std::time::Duration;

use prost_reflect::prost_types::{DescriptorProto, FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, DynamicMessage};
use protox::prost::Message;
use tempfile::TempDir;
use tidewire_proto::{CacheScope, Descriptors, MethodOptions, Sources};

fn write(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    folder
}

fn names(descriptors: &Descriptors, requested: bool) -> Vec<&str> {
    let files = descriptors.files().iter().filter(|file| file.requested == requested);
    files.map(|file| file.name.as_str()).collect()
}

#[test]
fn a_folder_is_compiled_with_imports_first_and_hidden_folders_left_out() {
    let folder = write(&[
        ("shop/v1/a.proto", "syntax = \"proto3\"; import \"z.proto\"; message A { Z z = 1; }"),
        ("z.proto", "syntax = \"proto3\"; import \"google/protobuf/empty.proto\"; message Z {}"),
        (".git/b.proto", "not even protobuf"),
        ("README.md", "not protobuf"),
    ]);
    let compiled = Sources::new().folder(folder.path()).compile().unwrap();
    assert_eq!(names(&compiled, true), ["z.proto", "shop/v1/a.proto"]);
    assert_eq!(names(&compiled, false), ["google/protobuf/empty.proto"]);
    assert_eq!(compiled.files()[1].path.as_deref(), Some(&*folder.path().join("z.proto")));
    assert_eq!(compiled.files()[0].path, None);
    DescriptorPool::decode(compiled.bytes().as_slice()).unwrap();
}

#[test]
fn source_info_is_there_or_not() {
    let folder = write(&[("a.proto", "syntax = \"proto3\";\n// Says something.\nmessage A {}")]);
    let compiled = Sources::new().file(folder.path().join("a.proto")).compile().unwrap();
    let file = |bytes: Vec<u8>| FileDescriptorSet::decode(bytes.as_slice()).unwrap().file.remove(0);
    let full = file(compiled.bytes());
    let info = full.source_code_info.clone().expect("source info");
    assert!(info.location.iter().any(|at| at.leading_comments() == " Says something.\n"));
    let bare = file(compiled.without_source_info());
    assert_eq!(bare, FileDescriptorProto { source_code_info: None, ..full });
}

/// buf refuses a file where it is not so.
#[test]
fn the_place_of_an_option_of_a_file_follows_that_of_its_statement() {
    let text = "syntax = \"proto3\";
        option go_package = \"x.dev/a\";
        option optimize_for = SPEED;
        option cc_enable_arenas = true;
        option java_package = \"dev.x\";
        message A {}";
    let folder = write(&[("a.proto", text)]);
    let compiled = Sources::new().folder(folder.path()).compile().unwrap();
    let file = FileDescriptorSet::decode(compiled.bytes().as_slice()).unwrap().file.remove(0);
    let places = file.source_code_info.unwrap().location;
    let mut options = Vec::new();
    for pair in places.windows(2).filter(|pair| matches!(pair[1].path[..], [8, _])) {
        assert_eq!((&pair[0].path[..], &pair[0].span), (&[8][..], &pair[1].span));
        options.push(pair[1].path[1]);
    }
    options.sort_unstable();
    assert_eq!(options, [1, 9, 11, 31]);
}

#[test]
fn extensions_of_message_sets_have_the_numbers_that_are_written() {
    let text = "syntax = \"proto2\";
        message S { option message_set_wire_format = true; extensions 4 to max; }
        message M { extend S { optional M inner = 2147483646; } }
        extend S { optional M outer = 0x20000000; optional M small = 7; }";
    let folder = write(&[("a.proto", text)]);
    let compiled = Sources::new().file(folder.path().join("a.proto")).compile().unwrap();
    let file = FileDescriptorSet::decode(compiled.bytes().as_slice()).unwrap().file.remove(0);
    assert_eq!(file.message_type[1].extension[0].number(), 2_147_483_646);
    let numbers: Vec<_> = file.extension.iter().map(|extension| extension.number()).collect();
    assert_eq!(numbers, [0x2000_0000, 7]);
}

#[test]
fn files_are_named_by_path_or_by_name() {
    let folder = write(&[("p/q/a.proto", "")]);
    let p = folder.path().join("p");
    let dotted = folder.path().join("./p/./q/a.proto");
    for file in [p.join("q/a.proto"), Path::new("q/a.proto").to_owned(), dotted] {
        let compiled = Sources::new().include(&p).file(&file).file(&file).compile().unwrap();
        assert_eq!(names(&compiled, true), ["q/a.proto"], "{}", file.display());
    }
}

#[test]
fn built_in_files_are_importable_and_yield_to_those_on_disk() {
    let text = "syntax = \"proto3\";
        import \"google/api/annotations.proto\";
        import \"google/api/field_behavior.proto\";
        import \"google/api/httpbody.proto\";
        import \"google/protobuf/timestamp.proto\";
        message A { string id = 1 [(google.api.field_behavior) = REQUIRED]; }
        service S {
          rpc Get(A) returns (google.api.HttpBody) { option (google.api.http) = { get: \"/a/{id}\" }; }
        }";
    let folder = write(&[("a.proto", text)]);
    let sources = Sources::new().folder(folder.path());
    let compiled = sources.compile().unwrap();
    let pool = DescriptorPool::decode(compiled.without_source_info().as_slice()).unwrap();
    let method = pool.services().next().unwrap().methods().next().unwrap();
    let rule = pool.get_extension_by_name("google.api.http").unwrap();
    let said = method.options().get_extension(&rule).to_string();
    assert!(said.contains("/a/{id}"), "{said}");
    fs::create_dir_all(folder.path().join("google/api")).unwrap();
    fs::write(folder.path().join("google/api/field_behavior.proto"), "broken").unwrap();
    let found = sources.compile().expect_err("the file on disk is taken").to_string();
    assert!(found.contains("field_behavior.proto:1:1: "), "{found}");
}

/// The options of the methods of `service.proto` in the same folder.
fn options(methods: &str) -> Vec<MethodOptions> {
    let text = format!(
        "syntax = \"proto3\"; import \"tidewire/v1/options.proto\"; message A {{}}
         service S {{ {methods} }}"
    );
    let folder = write(&[("a.proto", &text)]);
    let compiled = Sources::new().folder(folder.path()).compile().unwrap();
    let pool = DescriptorPool::decode(compiled.bytes().as_slice()).unwrap();
    let service = pool.services().next().unwrap();
    let methods = service.methods();
    methods
        .map(|method| MethodOptions::decode(&method.options().encode_to_vec()).unwrap())
        .collect()
}

#[test]
fn method_options_are_read_back() {
    let found = options(
        "rpc A(.A) returns (.A);
         rpc B(.A) returns (.A) {
           option idempotency_level = NO_SIDE_EFFECTS;
           option (tidewire.v1.method) = {
             cache: VARY vary: [\"accept-language\", \"x-region\"] ttl: { seconds: 1 nanos: 500000000 }
           };
         }
         rpc C(.A) returns (.A) {
           option idempotency_level = NO_SIDE_EFFECTS;
           option (tidewire.v1.method).cache = PUBLIC;
           option (tidewire.v1.method).immutable = true;
           option (tidewire.v1.method).max_age = { seconds: 5 };
           option (tidewire.v1.method).stale_if_error = { seconds: 60 };
         }
         rpc D(.A) returns (.A) { option (tidewire.v1.method).http_status = 201; }",
    );
    assert_eq!(found[0], MethodOptions::default());
    let vary = ["accept-language", "x-region"].map(str::to_owned).to_vec();
    assert_eq!(found[1].cache, Some(CacheScope::Vary(vary)));
    assert_eq!(found[1].ttl, Some(Duration::from_millis(1500)));
    assert_eq!((&found[2].cache, found[2].immutable), (&Some(CacheScope::Public), true));
    let lives = [found[2].max_age, found[2].stale_while_revalidate, found[2].stale_if_error];
    assert_eq!(lives, [Some(Duration::from_secs(5)), None, Some(Duration::from_secs(60))]);
    assert_eq!(found[3].http_status, Some(201));
}

/// A descriptor set of one file of an edition, as `protoc` would make it.
fn edition_set() -> Vec<u8> {
    let text = "syntax = \"proto2\"; package ed; import \"google/protobuf/any.proto\";
        message E { optional int32 a = 1; } service S { rpc M(E) returns (E); }";
    let folder = write(&[("ed.proto", text)]);
    let compiled = Sources::new().folder(folder.path()).compile().unwrap();
    let mut set = FileDescriptorSet::decode(compiled.bytes().as_slice()).unwrap();
    for file in set.file.iter_mut().filter(|file| file.name() == "ed.proto") {
        file.syntax = Some("editions".to_owned());
    }
    let mut bytes = set.encode_to_vec();
    // `edition = EDITION_2023`, field 14, which this library's descriptors do not have: appended
    // to the last file, whose length is two bytes.
    let at = bytes.len() - set.file.last().unwrap().encoded_len();
    let length = set.file.last().unwrap().encoded_len() + 3;
    bytes.truncate(at - 2);
    bytes.extend([u8::try_from(length & 0x7f | 0x80).unwrap(), u8::try_from(length >> 7).unwrap()]);
    bytes.extend(set.file.last().unwrap().encode_to_vec());
    bytes.extend([0x70, 0xe8, 0x07]);
    bytes
}

#[test]
fn an_edition_enters_as_a_descriptor_set_and_may_be_imported() {
    let text = "syntax = \"proto3\"; import \"ed.proto\"; message A { ed.E e = 1; }";
    let folder = write(&[("p/a.proto", text)]);
    let set = folder.path().join("ed.binpb");
    fs::write(&set, edition_set()).unwrap();
    let compiled =
        Sources::new().folder(folder.path().join("p")).descriptor_set(&set).compile().unwrap();
    assert_eq!(names(&compiled, true), ["ed.proto", "a.proto"]);
    assert_eq!(names(&compiled, false), ["google/protobuf/any.proto"]);
    let file = compiled.files().iter().find(|file| file.name == "ed.proto").unwrap();
    assert!(file.bytes().ends_with(&[0x70, 0xe8, 0x07]), "the edition is kept");
}

#[test]
fn a_set_without_its_imports_says_how_to_make_one() {
    let folder = write(&[("a.proto", "import \"b.proto\"; message A {}"), ("b.proto", "")]);
    let compiled = Sources::new().folder(folder.path()).compile().unwrap();
    let mut set = FileDescriptorSet::decode(compiled.bytes().as_slice()).unwrap();
    set.file.retain(|file| file.name() == "a.proto");
    let path = folder.path().join("x.binpb");
    fs::write(&path, set.encode_to_vec()).unwrap();
    let found = Sources::new().descriptor_set(&path).compile().expect_err("b.proto is missing");
    let found = found.to_string();
    assert!(found.contains("x.binpb(a.proto):1:1: import 'b.proto' not found"), "{found}");
    assert!(found.contains("--include_imports"), "{found}");
}

#[test]
fn damaged_sets_never_panic() {
    let set = edition_set();
    let folder = write(&[]);
    let path = folder.path().join("x.binpb");
    for cut in 0..set.len() {
        let mut damaged = set.clone();
        damaged[cut] ^= 0x55;
        fs::write(&path, &damaged).unwrap();
        let _ = Sources::new().descriptor_set(&path).compile();
        fs::write(&path, &set[..cut]).unwrap();
        let _ = Sources::new().descriptor_set(&path).compile();
    }
}

#[test]
fn what_a_program_embeds_has_the_places_of_methods_and_nothing_else_of_source_info() {
    let text = "syntax = \"proto3\";
import \"google/api/annotations.proto\";
// A message.
message A { string id = 1; }
service S {
  // Gets one.
  rpc Get(A) returns (A) {
    option (google.api.http) = { get: \"/a/{id}\" };
  } // After it.
}
";
    let folder = write(&[("a.proto", text), ("b.proto", "syntax = \"proto3\"; message B {}")]);
    let compiled = Sources::new().folder(folder.path()).compile().unwrap();
    let set = FileDescriptorSet::decode(compiled.with_places_of_methods().as_slice()).unwrap();
    let file = |name: &str| set.file.iter().find(|file| file.name() == name).unwrap();
    assert_eq!(file("b.proto").source_code_info, None);
    let info = file("a.proto").source_code_info.clone().unwrap();
    let places: Vec<_> = info
        .location
        .iter()
        .map(|at| (&at.path[..], at.span[0] + 1, at.leading_comments(), at.trailing_comments()))
        .collect();
    assert_eq!(
        places,
        [(&[6, 0, 2, 0][..], 7, " Gets one.\n", ""), (&[6, 0, 2, 0, 4, 72_295_728][..], 8, "", ""),]
    );
    let bare = FileDescriptorSet::decode(compiled.without_source_info().as_slice()).unwrap();
    let without =
        |file: &FileDescriptorProto| FileDescriptorProto { source_code_info: None, ..file.clone() };
    assert_eq!(set.file.iter().map(without).collect::<Vec<_>>(), bare.file);
}

/// The only file that is asked for, as protoc's own descriptor describes it.
fn file_of(text: &str) -> FileDescriptorProto {
    let folder = write(&[("a.proto", text)]);
    let compiled = Sources::new().file(folder.path().join("a.proto")).compile().unwrap();
    let file = compiled.files().iter().find(|file| file.requested).unwrap();
    FileDescriptorProto::decode(file.bytes()).unwrap()
}

#[test]
fn a_file_that_the_linker_is_shown_differently_comes_out_as_it_was_written() {
    let file = file_of(
        "syntax = \"proto3\"; message A { option deprecated_legacy_json_field_conflicts = true;
         int32 foo_bar = 1; message B { int32 fooBar = 1; int32 FooBar = 2; } int32 fooBar = 2; }",
    );
    let names = |message: &DescriptorProto| -> Vec<String> {
        message.field.iter().map(|field| field.json_name().to_owned()).collect()
    };
    assert_eq!(file.syntax(), "proto3");
    assert_eq!(names(&file.message_type[0]), ["fooBar", "fooBar"]);
    assert_eq!(names(&file.message_type[0].nested_type[0]), ["fooBar", "FooBar"]);

    let file = file_of("syntax = \"proto3\"; message A { optional int32 a = 1; int32 _a = 2; }");
    let message = &file.message_type[0];
    assert_eq!(message.oneof_decl[0].name(), "X_a");
    assert_eq!(message.field[0].oneof_index, Some(0));
    assert_eq!(file.syntax(), "proto3");
}

#[test]
fn what_the_parser_reads_differently_means_the_same_and_keeps_its_places() {
    let file = file_of(
        "message A { extensions 20 [verification = UNVERIFIED]; extensions 30;
         optional double d = 1 [default = -18446744073709551617, deprecated = true];
         optional double i = 2 [default = -inf]; optional double n = 3 [default = nan];
         optional string s = 4 [default = \"a\\ud83d\\ude00b\"]; }",
    );
    let message = &file.message_type[0];
    let ranges: Vec<_> =
        message.extension_range.iter().map(|range| (range.start(), range.end())).collect();
    assert_eq!(ranges, [(20, 21), (30, 31)]);
    let defaults: Vec<_> = message.field.iter().map(|field| field.default_value()).collect();
    assert_eq!(defaults, ["-18446744073709552000", "-inf", "nan", "a😀b"]);
    let info = file.source_code_info.unwrap();
    let place = |path: &[i32]| {
        info.location.iter().find(|at| at.path == path).map(|at| at.span.clone()).unwrap()
    };
    assert_eq!(place(&[4, 0, 5, 1]), [0, 66, 68]);
    assert_eq!(place(&[4, 0, 2, 0, 8, 3]), [1, 65, 82]);
    assert_eq!(place(&[4, 0, 2, 1, 1]), [2, 25, 26]);
}

/// `edition.binpb` is what protoc 35.1 makes of `edition.proto`.
#[test]
fn an_edition_is_what_protoc_makes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("edition.proto");
    fs::write(&path, include_str!("../cases/edition.proto")).unwrap();
    let compiled = Sources::new().file(&path).compile().unwrap();
    let sorted = |set: &[u8]| {
        // One set of one file: its tag and its length go before it.
        let begin = set.iter().skip(1).position(|byte| byte & 0x80 == 0).unwrap() + 2;
        let mut fields = top_level(&set[begin..]);
        fields.retain(|field| field[0] != (9 << 3 | 2));
        fields.sort();
        fields
    };
    assert_eq!(sorted(&compiled.bytes()), sorted(include_bytes!("../cases/edition.binpb")));
}

/// The fields of an encoded `FileDescriptorProto`: texts, messages and one number.
fn top_level(mut file: &[u8]) -> Vec<Vec<u8>> {
    let mut fields = Vec::new();
    while let Some(tag) = file.first() {
        let mut at = 1;
        let mut number = 0_usize;
        let mut shift = 0;
        loop {
            let byte = file[at];
            at += 1;
            number |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        let end = if tag & 7 == 2 { at + number } else { at };
        fields.push(file[..end].to_vec());
        file = &file[end..];
    }
    fields
}

#[test]
fn an_image_of_buf_is_a_descriptor_set_and_may_be_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("a.proto"), "edition = \"2023\"; package a; message M { string x = 1; }")
        .unwrap();
    let set = Sources::new().file(path("a.proto")).compile().unwrap().bytes();
    let begin = set.iter().skip(1).position(|byte| byte & 0x80 == 0).unwrap() + 2;
    // What buf adds to a file: field 8042, a message.
    let file = [&set[begin..], &[0xd2, 0xf6, 0x03, 0x02, 0x08, 0x01]].concat();
    let length = u8::try_from(file.len() & 0x7f).unwrap() | 0x80;
    let set = [&[0x0a, length, u8::try_from(file.len() >> 7).unwrap()], &file[..]].concat();
    fs::write(path("image.binpb"), &set).unwrap();
    let gzip = std::process::Command::new("gzip").arg("-k").arg(path("image.binpb")).status();
    assert!(gzip.unwrap().success());
    for name in ["image.binpb", "image.binpb.gz"] {
        let compiled = Sources::new().descriptor_set(path(name)).compile().unwrap();
        let names: Vec<_> = compiled.files().iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.proto"], "{name}");
    }
    let gzip = fs::read(path("image.binpb.gz")).unwrap();
    fs::write(path("cut.gz"), &gzip[..gzip.len() - 9]).unwrap();
    fs::write(path("image.json"), "{\"file\": []}").unwrap();
    fs::write(path("other.json"), "{\"responses\": []}").unwrap();
    fs::write(path("broken.json"), "{\"file\": [").unwrap();
    fs::write(path("wrong.json"), "{\"file\": [{\"name\": 7}]}").unwrap();
    for (name, expected) in [
        ("cut.gz", "the gzip is not whole"),
        ("image.json", "not an encoded FileDescriptorSet"),
        ("other.json", "there is no list `file` in it"),
        ("broken.json", "not JSON"),
        ("wrong.json", "not an image of buf"),
    ] {
        let refused = Sources::new().descriptor_set(path(name)).compile().unwrap_err().to_string();
        assert!(
            refused.contains(expected) && refused.contains("buf build -o x.binpb"),
            "{refused}"
        );
    }
}

#[test]
fn an_image_of_buf_may_be_json_with_all_its_options() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let a = r#"edition = "2023"; package a; import "google/api/annotations.proto"; import "own.proto";
        service S { rpc Get(M) returns (M) { option (google.api.http).get = "/m/{x}"; } }
        message M { string x = 1 [(own).words = "a", features.field_presence = IMPLICIT]; map<string, M> by = 2; }"#;
    let own = r#"syntax = "proto2"; import "google/protobuf/descriptor.proto";
        message Own { repeated string words = 1; } extend google.protobuf.FieldOptions { optional Own own = 50001; }"#;
    fs::write(path("a.proto"), a).unwrap();
    fs::write(path("own.proto"), own).unwrap();
    let compiled = Sources::new().folder(folder.path()).compile().unwrap();
    // JSON by the types of the set itself, with what buf adds.
    let set = compiled.bytes();
    let mut pool = DescriptorPool::new();
    for mut file in FileDescriptorSet::decode(set.as_slice()).unwrap().file {
        if file.syntax() == "editions" {
            file.syntax = None;
        }
        pool.add_file_descriptor_proto(file).unwrap();
    }
    let of = pool.get_message_by_name("google.protobuf.FileDescriptorSet").unwrap();
    let decoded = |set: &[u8]| DynamicMessage::decode(of.clone(), set).unwrap();
    let mut json = serde_json::to_value(decoded(&set)).unwrap();
    for file in json["file"].as_array_mut().unwrap() {
        file["bufExtension"] = serde_json::json!({"isImport": true, "unusedDependency": [0]});
    }
    let text = json.to_string();
    assert!(text.contains("[google.api.http]") && text.contains("[own]"), "{text}");
    fs::write(path("image.json"), &text).unwrap();
    let read = Sources::new().descriptor_set(path("image.json")).compile().unwrap();
    assert_eq!(decoded(&read.bytes()), decoded(&set));
}

//! What the compiler says to somebody who implements a service's trait wrongly: each mistake with
//! the text that is read.
//!
//! The compiler is called as cargo calls it, with what cargo built for this test; nothing is built
//! again. The text is compared in its parts, since the compiler's drawing of it changes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that implements the trait `name` of `greet.v1.Greeter`, with `body` in the `impl`.
fn program(name: &str, body: &str) -> String {
    format!(
        r"#![allow(unused)]
use tidewire_build_fixture::proto::greet::v1::*;
use tidewire_build_fixture::service::generated::buffa_types::google::protobuf::Empty;
use tidewire_build_fixture::service::{{Context, Error, Reply, Result, Stream}};

struct Mine;

impl {name} for Mine {{
{body}
}}

fn main() {{
    let _ = GreeterServer::new(Mine);
}}
"
    )
}

const GREET: &str = "
    async fn greet(&self, _: Context, request: GreetRequest) -> Result<Reply<GreetReply>> {
        Ok(GreetReply { text: request.name, ..Default::default() }.into())
    }";

/// All methods but `greet`.
const OTHERS: &str = "
    async fn count(&self, _: Context, _: CountRequest) -> Result<Reply<Stream<CountReply>>> { todo!() }
    async fn sum(&self, _: Context, _: Stream<SumRequest>) -> Result<Reply<SumReply>> { todo!() }
    async fn chat(
        &self,
        _: Context,
        _: Stream<GreetRequest>,
    ) -> Result<Reply<Stream<GreetReply>>> { todo!() }
    async fn reset(&self, _: Context, _: Empty) -> Result<Reply<Empty>> { todo!() }";

/// What the compiler says; empty when it says nothing.
fn said(name: &str, program: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join(format!("{name}.rs"));
    std::fs::write(&source, program).unwrap();
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["--edition", "2024", "--crate-type", "bin", "--emit", "metadata"]);
    rustc
        .arg("--out-dir")
        .arg(folder.path())
        .arg("-L")
        .arg(format!("dependency={}", deps.display()));
    let library = newest(&deps, "tidewire_build_fixture");
    rustc.arg("--extern").arg(format!("tidewire_build_fixture={}", library.display()));
    let output = rustc.arg(&source).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

/// The library that was built last, which is the one that this test is linked with.
fn newest(deps: &Path, name: &str) -> PathBuf {
    let prefix = format!("lib{name}-");
    let files = std::fs::read_dir(deps).unwrap().map(|entry| entry.unwrap());
    let libraries = files.filter(|entry| {
        let file = entry.file_name();
        let file = file.to_string_lossy();
        file.starts_with(&prefix) && file.ends_with(".rlib")
    });
    let newest = libraries.max_by_key(|entry| entry.metadata().unwrap().modified().unwrap());
    newest.unwrap_or_else(|| panic!("no {prefix}*.rlib in {}", deps.display())).path()
}

#[test]
fn the_right_program_compiles_and_a_forgotten_method_does_not() {
    let all = format!("{GREET}{OTHERS}");
    assert_eq!(said("right", &program("Greeter", &all)), "");
    let text = said("forgotten", &program("Greeter", OTHERS));
    for part in ["not all trait items implemented, missing: `greet`", "missing `greet` in impl"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn an_implementation_that_says_that_it_is_partial_may_leave_out_any_method() {
    for (name, body) in [("one", GREET), ("the_others", OTHERS), ("nothing", "")] {
        assert_eq!(said(name, &program("GreeterPartial", body)), "", "{name}");
    }
}

#[test]
fn both_ways_are_named_where_there_is_neither_and_two_are_one_too_many() {
    let neither = program("Clone", "fn clone(&self) -> Self { Mine }");
    let text = said("neither", &neither);
    for part in [
        "`Mine` does not implement `Greeter`",
        "implement `Greeter`, or `GreeterPartial` to serve only some of its methods",
    ] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
    let both = program("GreeterPartial", GREET);
    let text = said("both", &format!("{both}\nimpl Greeter for Mine {{ {GREET}{OTHERS} }}"));
    for part in ["conflicting implementations of trait", "Greeter` for type `Mine`"] {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn each_mistake_is_told_by_the_names_that_users_know() {
    let not_send = "
    async fn greet(&self, _: Context, _: GreetRequest) -> Result<Reply<GreetReply>> {
        let shared = std::rc::Rc::new(1);
        std::future::ready(()).await;
        drop(shared);
        Err(Error::internal(\"no\"))
    }";
    for (name, body, parts) in [
        (
            "no_reply",
            "    async fn greet(&self, _: Context, _: GreetRequest) -> Result<GreetReply> { todo!() }",
            &["expected `Result<Reply<GreetReply>, Error>`, found `Result<GreetReply, Error>`"][..],
        ),
        (
            "other_request",
            "    async fn greet(&self, _: Context, _: String) -> Result<Reply<GreetReply>> { todo!() }",
            &["method `greet` has an incompatible type for trait", "`GreetRequest`"],
        ),
        (
            "no_context",
            "    async fn greet(&self, _: GreetRequest) -> Result<Reply<GreetReply>> { todo!() }",
            &["method `greet` has 2 parameters but the declaration in trait", "3"],
        ),
        (
            "mutable",
            "    async fn greet(&mut self, _: Context, _: GreetRequest) -> Result<Reply<GreetReply>> { todo!() }",
            &["method `greet` has an incompatible type for trait", "types differ in mutability"],
        ),
        (
            "misspelled",
            "    async fn great(&self, _: Context, _: GreetRequest) -> Result<Reply<GreetReply>> { todo!() }",
            &["method `great` is not a member of trait `Greeter`", "`greet`"],
        ),
        (
            "not_async",
            "    fn greet(&self, _: Context, _: GreetRequest) -> Result<Reply<GreetReply>> { todo!() }",
            &["is not a future", "greet"],
        ),
        (
            "not_send",
            not_send,
            &["future cannot be sent between threads safely", "has type `Rc<i32>`", "greet"],
        ),
    ] {
        let text = said(name, &program("Greeter", &format!("{body}{OTHERS}")));
        assert!(!text.is_empty(), "{name} compiles");
        for part in parts {
            assert!(text.contains(part), "{name}: {part:?} is not in:\n{text}");
        }
        // A name that begins so is nobody's to read; the compiler underlines with the same
        // character.
        let hidden = text.split("__").skip(1).any(|rest| rest.starts_with(char::is_alphabetic));
        assert!(!hidden, "{name} names what is hidden:\n{text}");
    }
}

//! `tidewire init`.

use std::process::Command;

use crate::program::{folder, run};
use crate::server::root;

#[test]
fn an_empty_folder_becomes_a_project_that_cargo_understands() {
    let folder = folder(&[]);
    run(folder.path(), &["init", "my shop"])
        .check(0, &["made a project in my shop", "next: cd my shop && cargo run", "/hello/Ada"]);
    let project = folder.path().join("my shop");
    let metadata = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(&project)
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let package = &metadata["packages"][0];
    assert_eq!(package["name"], "my-shop");
    for dependency in package["dependencies"].as_array().unwrap() {
        if let Some(path) = dependency["path"].as_str() {
            assert!(root().join(path).join("Cargo.toml").exists(), "{path}");
        }
    }
    // The sources are those of the example, which is built and called by its own tests.
    for file in ["build.rs", "proto/hello.proto", "src/main.rs"] {
        let example = std::fs::read_to_string(root().join("examples/hello").join(file)).unwrap();
        assert_eq!(std::fs::read_to_string(project.join(file)).unwrap(), example, "{file}");
    }
    run(&project, &["check", "proto"]).check(0, &["nothing wrong"]);
    run(&project, &["init"]).check(0, &["proto: hello.v1.Greeter"]);
    run(&project, &["init"]).check(2, &["has a tidewire.toml"]);
}

#[test]
fn tidewire_comes_from_a_clone_or_a_repository() {
    let folder = folder(&[("full/readme", "")]);
    let url = "https://example.org/tidewire.git";
    run(folder.path(), &["init", "a", "--tidewire", url]).check(0, &["made a project"]);
    let manifest = std::fs::read_to_string(folder.path().join("a/Cargo.toml")).unwrap();
    assert_eq!(manifest.matches(&format!("git = {url:?}")).count(), 2, "{manifest}");
    run(folder.path(), &["init", "b", "--tidewire", "full"]).check(2, &["not a clone of Tidewire"]);
    run(folder.path(), &["init", "full"]).check(2, &["full holds readme and no .proto file"]);
    assert!(!folder.path().join("b").exists());
}

#[test]
fn a_folder_of_protos_gets_settings_that_serve_and_check_take() {
    let proto = |package: &str, name: &str| {
        format!(
            "syntax = \"proto3\";\npackage {package};\nservice {name} {{ rpc M(A) returns (A); }}\n\
             message A {{}}\n"
        )
    };
    let folder = folder(&[
        ("api/shop/v1/shop.proto", &proto("shop.v1", "Shop")),
        ("api/shop/v2/shop.proto", &proto("shop.v2", "Shop")),
        ("other/deep/list.proto", &proto("list", "List")),
        ("target/left.proto", "no"),
    ]);
    run(folder.path(), &["init"]).check(
        0,
        &["api: shop.v1.Shop, shop.v2.Shop", "other/deep: list.List", "next: tidewire serve"],
    );
    run(folder.path(), &["check"]).check(0, &["checked 4 files: nothing wrong"]);
}

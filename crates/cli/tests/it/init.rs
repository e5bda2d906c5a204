//! `tidewire init`.

use std::process::Command;

use crate::hosting::{Served, ask};
use crate::program::{folder, run};
use crate::server::root;

#[test]
fn an_empty_folder_becomes_a_project_that_cargo_understands() {
    let folder = folder(&[]);
    let clone = root().to_str().unwrap();
    run(folder.path(), &["init", "my shop", "--tidewire", clone])
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
    run(folder.path(), &["init", "full"])
        .check(2, &["full holds readme, and neither .proto files"]);
    run(folder.path(), &["init", "c"]).check(2, &["names no repository", "--tidewire PATH"]);
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

#[test]
fn a_relative_clone_stays_relative() {
    let folder = folder(&[("tidewire/crates/tidewire/Cargo.toml", "")]);
    run(folder.path(), &["init", "c"]).check(2, &["--tidewire tidewire for the clone"]);
    run(folder.path(), &["init", "c", "--tidewire", "tidewire"]).check(0, &["made a project"]);
    let manifest = std::fs::read_to_string(folder.path().join("c/Cargo.toml")).unwrap();
    assert!(manifest.contains("path = \"../tidewire/crates/build\""), "{manifest}");
    assert!(!manifest.contains(folder.path().to_str().unwrap()), "{manifest}");
}

#[test]
fn a_folder_of_protos_and_a_program_says_that_the_program_is_there() {
    let proto =
        "syntax = \"proto3\";\npackage a;\nservice B { rpc M(A) returns (A); }\nmessage A {}\n";
    let package = r#"{"scripts": {"start": "node a.js"}}"#;
    let folder = folder(&[("a/a.proto", proto), ("package.json", package)]);
    let said = [
        "a.B: answered with the fields of the request (backend = \"echo\")",
        "a Node program, started by `node a.js` (package.json): not hosted",
        "it does not use the library `tidewire`",
    ];
    run(folder.path(), &["init"]).check(0, &said);
    run(folder.path(), &["check"]).check(0, &["nothing wrong"]);
    let settings = folder.path().join("tidewire.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    assert!(
        text.contains("# [[service]]\n") && text.contains("# run = [\"node\", \"a.js\"]"),
        "{text}"
    );
    let package = r#"{"scripts": {}}"#;
    let folder = crate::program::folder(&[("a/a.proto", proto), ("package.json", package)]);
    let said = ["a.B: answered with", "nothing is hosted: package.json has no script `start`"];
    run(folder.path(), &["init"]).check(0, &said);
}

#[test]
fn a_folder_of_protos_and_a_program_by_the_library_is_hosted_with_its_methods() {
    let proto = "syntax = \"proto3\";\npackage a;\nservice B { rpc M(A) returns (A); }\n\
                 message A { string of = 1; }\n";
    let package = r#"{"scripts": {"start": "node a.js"}}"#;
    let library = root().join("sdk/node/tidewire.js");
    let program =
        format!("require({library:?}).serve({{ \"a.B/M\": () => ({{ of: \"node\" }}) }});");
    let folder =
        folder(&[("protos/a.proto", proto), ("package.json", package), ("a.js", &program)]);
    let said = ["protos: a.B: served by the program", "hosted, with these methods"];
    run(folder.path(), &["init"]).check(0, &said);
    run(folder.path(), &["check"]).check(0, &["nothing wrong"]);
    let served = served(&folder);
    run(folder.path(), &["call", &served.address, "M", "{}"]).check(0, &["node"]);
}

/// Serves by the settings that init wrote, at a free port, with time to start for a busy machine.
fn served(folder: &tempfile::TempDir) -> Served {
    let settings = folder.path().join("tidewire.toml");
    let text = std::fs::read_to_string(&settings).unwrap();
    let text = text.replace("127.0.0.1:8080", "127.0.0.1:0");
    let text = text.replace("\n[[service]]\n", "\n[[service]]\nstart_timeout = \"2m\"\n");
    std::fs::write(settings, text).unwrap();
    Served::start(folder.path())
}

/// What a folder answers at `/hello` once init and serve ran in it.
fn hosted(files: &[(&str, &str)], said: &[&str], build: &[&str]) -> String {
    let folder = folder(files);
    run(folder.path(), &["init"]).check(0, said);
    if let [program, arguments @ ..] = build {
        let built = Command::new(program).args(arguments).current_dir(folder.path()).status();
        assert!(built.unwrap().success());
    }
    run(folder.path(), &["check"]).check(0, &["nothing wrong"]);
    let served = served(&folder);
    ask(&served.address, "/hello")
}

#[test]
fn a_folder_with_a_node_program_is_hosted() {
    let server = "require('http').createServer((q, r) => r.end('node ' + q.url)) \
                  .listen(process.env.PORT, '127.0.0.1');";
    let direct = r#"{"scripts": {"start": "node server.js"}}"#;
    let files = [("package.json", direct), ("server.js", server)];
    let said = ["a Node program, started by `node server.js`", "next: tidewire serve"];
    assert!(hosted(&files, &said, &[]).ends_with("node /hello"));
    let wrapped = r#"{"scripts": {"start": "MODE=x node server.js"}}"#;
    let files = [("package.json", wrapped), ("server.js", server)];
    assert!(hosted(&files, &["npm run --silent start"], &[]).ends_with("node /hello"));
}

#[test]
fn a_folder_with_a_go_program_is_hosted_once_it_is_built() {
    let main = r#"package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "go ", r.URL.Path) })
	http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil)
}
"#;
    let files = [("go.mod", "module shop\n\ngo 1.21\n"), ("cmd/shop/main.go", main)];
    let said = ["a Go program, ./cmd/shop", "go build -o ./shop.bin ./cmd/shop && tidewire serve"];
    let build = ["go", "build", "-o", "./shop.bin", "./cmd/shop"];
    assert!(hosted(&files, &said, &build).ends_with("go /hello"));
}

#[test]
fn a_folder_with_a_python_application_is_hosted_by_the_server_of_its_environment() {
    // What gunicorn is told is what matters here; the programs are the standard library's.
    let server = r#"#!/usr/bin/env python3
import http.server, importlib, socketserver, sys
flag, address, app = sys.argv[1:]
module, name = app.split(":")
sys.path.insert(0, ".")
text = getattr(importlib.import_module(module), name).text
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", str(len(text + self.path)))
        self.end_headers()
        self.wfile.write((text + self.path).encode())
    def address_string(self):
        return "socket"
assert flag == "--bind"
socketserver.ThreadingUnixStreamServer(address.removeprefix("unix:"), Handler).serve_forever()
"#;
    let app = "class Flask:\n    def __init__(self, name): self.text = 'python '\n\napp = Flask(__name__)\n";
    let files =
        [("requirements.txt", "gunicorn\n"), ("app.py", app), (".venv/bin/gunicorn", server)];
    let said = ["a Python application, app:app, served by gunicorn"];
    let executable = ["chmod", "+x", ".venv/bin/gunicorn"];
    assert!(hosted(&files, &said, &executable).ends_with("python /hello"));
}

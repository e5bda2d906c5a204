//! What the guide puts a server on a network with starts where the guide puts it: from a folder
//! that the program may not write to, with its own folder for what it makes.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::program::{command, folder, run};
use crate::server::root;

fn guide() -> String {
    std::fs::read_to_string(root().join("docs/guide/production.md")).unwrap()
}

/// The text of the block that begins with this line.
fn block(first: &str) -> String {
    let guide = guide();
    let (_, rest) = guide.split_once(&format!("```{first}\n")).expect(first);
    rest.split_once("\n```").unwrap().0.to_owned()
}

/// What a line of the guide says behind this.
fn said(key: &str) -> String {
    let guide = guide();
    let line = guide.lines().find_map(|line| line.trim().strip_prefix(key));
    line.expect(key).trim().to_owned()
}

/// All files below a folder.
fn files(folder: &Path, into: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, into);
        }
        into.insert(path);
    }
}

/// Starts the program with these arguments in `/etc/shop` as the guide has it.
fn starts(arguments: &[&str], working: &str) {
    let settings = block("toml tidewire.toml");
    let proto = block("proto protos/shop.proto");
    let here = folder(&[
        ("etc/shop/tidewire.toml", &settings),
        ("etc/shop/protos/shop.proto", &proto),
        ("run/shop/.keep", ""),
    ]);
    let place = |text: &str| {
        let (etc, run) = (here.path().join("etc/shop"), here.path().join("run/shop"));
        let text = text.replace("/etc/shop", etc.to_str().unwrap());
        text.replace("/run/shop", run.to_str().unwrap()).replace("0.0.0.0:8080", "127.0.0.1:0")
    };
    let arguments: Vec<_> = arguments.iter().map(|text| place(text)).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
    files(&here.path().join("etc"), &mut before);
    let mut serve = command(Path::new(&place(working)), &arguments);
    serve.env("TIDEWIRE_SERVER_LISTEN", "127.0.0.1:0").stdout(Stdio::piped());
    let mut child = serve.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = lines.next().expect("it starts").unwrap();
    assert!(first.starts_with("listening on 127.0.0.1:"), "{first}");
    let admin = format!("unix:{}", place("/run/shop/admin.sock"));
    run(here.path(), &["top", "--once", "--admin", &admin]).check(0, &["ready, up"]);
    files(&here.path().join("etc"), &mut after);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(before, after, "it makes nothing where its settings are");
}

#[test]
fn the_unit_of_the_guide_starts_the_program_with_the_settings_of_the_guide() {
    let line = said("ExecStart=");
    let words: Vec<_> = line.split(' ').collect();
    assert_eq!(words[0], "/usr/bin/tidewire");
    starts(&words[1..], &said("WorkingDirectory="));
}

#[test]
fn the_manifest_of_the_guide_starts_the_program_with_the_settings_of_the_guide() {
    let arguments: Vec<String> = serde_json::from_str(&said("args:")).unwrap();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    starts(&arguments, &said("workingDir:"));
}

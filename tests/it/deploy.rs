//! What the guide puts a server on a network with: its units pass systemd, its manifest fits
//! Kubernetes.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tidewire_tests::program::root;

/// The blocks of the guide in this language.
fn blocks(language: &str) -> Vec<String> {
    let guide = std::fs::read_to_string(root().join("docs/guide/production.md")).unwrap();
    let mut parts = guide.split("\n```");
    let mut found = Vec::new();
    while let Some(part) = parts.next() {
        let Some(text) = part.strip_prefix(language) else { continue };
        found.push(text.trim_start_matches('\n').to_owned());
        parts.next();
    }
    assert!(!found.is_empty(), "no {language} in the guide");
    found
}

fn check_manifest(text: &str) -> (bool, String) {
    let mut node = Command::new("node")
        .arg(root().join("tests/foreign/node/kubernetes.js"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    node.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let Output { status, stdout, stderr } = node.wait_with_output().unwrap();
    let mut told = String::from_utf8(stdout).unwrap();
    write!(told, "{}", String::from_utf8_lossy(&stderr)).unwrap();
    (status.success(), told)
}

#[test]
fn the_manifest_of_the_guide_fits_the_schema_of_kubernetes_and_a_misspelt_one_does_not() {
    let manifest = blocks("yaml").concat();
    let (is_right, told) = check_manifest(&manifest);
    assert!(is_right && told.contains("checked apps/v1/Deployment"), "{told}");
    for part in ["readinessProbe: { grpc: { port: 8080 }", "livenessProbe:", "runAsNonRoot: true"] {
        assert!(manifest.contains(part), "{part}");
    }
    for (right, wrong, expected) in [
        ("readinessProbe", "readynessProbe", "readynessProbe is not known"),
        ("periodSeconds: 2", "periodSeconds: two", "readinessProbe/periodSeconds"),
        ("grpc: { port: 8080 }", "grpc: { ports: 8080 }", "grpc.ports is not known"),
        ("selector:", "selectors:", "selector"),
    ] {
        let (is_right, told) = check_manifest(&manifest.replacen(right, wrong, 1));
        assert!(!is_right && told.contains(expected), "{wrong}: {told}");
    }
}

#[test]
fn the_units_of_the_guide_pass_systemd_and_leave_little_exposed() {
    let folder = tempfile::tempdir().unwrap();
    for unit in blocks("ini") {
        let (first, text) = unit.split_once('\n').unwrap();
        // A program that is there.
        let text = text.replace("/usr/bin/tidewire", "/bin/true");
        std::fs::write(folder.path().join(first.trim_start_matches("# ")), text).unwrap();
    }
    let service = folder.path().join("shop.service");
    let analyze = |arguments: &[&str], unit: &Path| {
        Command::new("systemd-analyze").args(arguments).arg(unit).output().unwrap()
    };
    for unit in [&service, &folder.path().join("shop.socket")] {
        let Output { status, stderr, .. } = analyze(&["verify", "--man=no"], unit);
        let told = String::from_utf8_lossy(&stderr);
        assert!(status.success() && told.is_empty(), "{told}");
    }
    // In tenths: 96 is a unit without any of it.
    let hardened = ["security", "--offline=true", "--no-pager", "--threshold=25"];
    let checked = analyze(&hardened, &service);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let text = std::fs::read_to_string(&service).unwrap();
    std::fs::write(&service, text.replace("CapabilityBoundingSet=\n", "")).unwrap();
    assert!(!analyze(&hardened, &service).status.success(), "the bar can be missed");
    std::fs::write(&service, text.replace("Type=notify", "Typo=notify")).unwrap();
    let told = analyze(&["verify", "--man=no"], &service);
    assert!(String::from_utf8_lossy(&told.stderr).contains("Typo"));
}

//! What the guide puts a server on a network with: its units pass systemd, its manifest and that of
//! the reference application fit Kubernetes, and its Compose file the Compose Specification.

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
    check("kubernetes.js", text)
}

fn check(program: &str, text: &str) -> (bool, String) {
    let mut node = Command::new("node")
        .arg(root().join("tests/foreign/node").join(program))
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

/// A file of the reference application.
fn of_contacts(name: &str) -> String {
    std::fs::read_to_string(root().join("examples/contacts").join(name)).unwrap()
}

#[test]
fn the_manifest_of_contacts_has_three_replicas_that_take_their_database_from_a_secret() {
    let manifest = of_contacts("kubernetes.yaml");
    let (is_right, told) = check_manifest(&manifest);
    let kinds = ["checked apps/v1/Deployment", "checked v1/Service"];
    assert!(is_right && kinds.iter().all(|kind| told.contains(kind)), "{told}");
    for part in ["replicas: 3", "secretKeyRef: { name: contacts, key: database-url }"] {
        assert!(manifest.contains(part), "{part}");
    }
    assert!(!manifest.contains("kind: Secret"), "a secret is made by hand");
    let (is_right, told) = check_manifest(&manifest.replacen("secretKeyRef", "secretKey", 1));
    assert!(!is_right && told.contains("secretKey"), "{told}");
}

#[test]
fn the_compose_file_of_contacts_fits_the_specification_and_a_misspelt_one_does_not() {
    let compose = of_contacts("compose.yaml");
    let (is_right, told) = check("compose.js", &compose);
    assert!(is_right && told.contains("checked services database, a, b, c, nginx"), "{told}");
    for (right, wrong, expected) in [
        ("depends_on:", "depend_on:", r#"{"additionalProperty":"depend_on"}"#),
        ("retries: 60", "retries: [60]", "/services/database/healthcheck/retries must be number"),
        ("depends_on: [a, b, c]", "depends_on: [a, b, d]", "nginx depends on d, which is not"),
        ("networks: [inside, outside]", "networks: [outer]", "nginx is in outer, which is not"),
    ] {
        let (is_right, told) = check("compose.js", &compose.replace(right, wrong));
        assert!(!is_right && told.contains(expected), "{wrong}: {told}");
    }
    // Reached from its own machine alone, by a password that the file does not have.
    let ports: Vec<_> = compose.lines().filter(|line| line.contains("ports:")).collect();
    assert_eq!(ports, [r#"    ports: ["127.0.0.1:8080:80"]"#]);
    let secrets: Vec<_> = compose.lines().filter(|line| line.contains("_PASSWORD:")).collect();
    assert_eq!(secrets.len(), 1 + 1, "{secrets:?}");
    assert!(secrets.iter().all(|line| line.contains("${POSTGRES_PASSWORD:?say which}")));
    for file in ["nginx.conf", "web/three-hosts.html", "Containerfile"] {
        assert!(compose.contains(file), "{file}");
        of_contacts(file);
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

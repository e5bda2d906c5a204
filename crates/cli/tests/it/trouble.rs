//! Servers that are not there, or are something else: each a clear error, and nothing hangs.

use std::process::Command;

use tidewire::server::Tls;

use crate::program::{folder, run};
use crate::server::{Background, behaviour, behaviour_protos, root, says};

#[test]
fn nobody_there_and_names_that_lead_nowhere() {
    let protos = behaviour_protos();
    let call = |target: &str| run(root(), &["call", target, "Echo", "--proto", &protos]);
    call("127.0.0.1:1").check(3, &["127.0.0.1:1", "refused"]);
    call("http://no-such-host.invalid").check(3, &["no-such-host.invalid"]);
    call("no-such-host.invalid").check(3, &["no-such-host.invalid"]);
    call("ftp://a").check(2, &["ftp:// is not known"]);
}

#[test]
fn a_port_that_speaks_something_else_is_said() {
    let protos = behaviour_protos();
    let ssh = says(b"SSH-2.0-OpenSSH_9.0\r\n");
    run(root(), &["call", &format!("http://{ssh}"), "Echo", "--proto", &protos])
        .check(3, &["does not speak"]);
    run(root(), &["call", &ssh, "Echo", "--proto", &protos]).check(3, &[&ssh]);
    run(root(), &["call", &format!("http://{ssh}/x")]).check(3, &["does not speak"]);
    let http = says(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    run(root(), &["call", &http, "Echo"]).check(3, &["does not speak gRPC", "--proto"]);
    run(root(), &["call", &http, "Echo", "--proto", &protos, "--protocol", "grpc"])
        .check(3, &["HTTP/1.1 only, and gRPC needs HTTP/2"]);
    run(root(), &["call", &http, "Echo", "--proto", &protos]).check(76, &["unimplemented"]);
}

#[test]
fn a_port_that_takes_everything_and_says_nothing_ends_with_the_deadline() {
    let silent = says(b"");
    run(root(), &["call", &silent, "Echo", "--deadline", "300ms"])
        .check(68, &["the deadline passed", &silent]);
    run(root(), &["call", &format!("http://{silent}/x"), "--deadline", "300ms"])
        .check(68, &["the deadline passed"]);
    run(root(), &["call", &format!("https://{silent}"), "Echo", "--deadline", "300ms"])
        .check(68, &["the deadline passed", &silent]);
}

#[test]
fn tls_is_found_out_and_its_mistakes_are_named() {
    let folder = folder(&[]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (at("cert.pem"), at("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &key, "-out", &certificate])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path: &str| std::fs::read(path).unwrap();
    let tls = Tls::new(&read(&certificate), &read(&key)).unwrap();
    let server = Background::start(behaviour().tls(tls));
    let place = &*server.address;
    let call = |target: &str, words: &[&str]| {
        run(root(), &[&["call", target, "Look", "{\"key\":\"a\"}"], words].concat())
    };
    let https = format!("https://{place}");
    call(&https, &["--cacert", &certificate]).check(0, &["{\"value\":\"a\"}\n"]);
    call(&https, &["--insecure"]).check(0, &["{\"value\":\"a\"}\n"]);
    call(place, &["--cacert", &certificate]).check(0, &["{\"value\":\"a\"}\n"]);
    call(&https, &[]).check(3, &["no authority that is trusted signed it", "--cacert FILE"]);
    call(&https, &["--cacert", "/none.pem"]).check(2, &["cannot read /none.pem"]);
    call(&format!("http://{place}"), &[])
        .check(3, &[&format!("the server speaks gRPC only over TLS; write https://{place}")]);
    let both = Tls::with_client_authorities(&read(&certificate), &read(&key), &read(&certificate));
    let strict = Background::start(behaviour().tls(both.unwrap()));
    let https = format!("https://{}", strict.address);
    call(&https, &["--cacert", &certificate, "--cert", &certificate, "--key", &key])
        .check(0, &["{\"value\":\"a\"}\n"]);
    call(&https, &["--cacert", &certificate]).check(3, &[&strict.address]);
    let plain = Background::start(behaviour());
    call(&format!("https://{}", plain.address), &["--insecure"])
        .check(3, &["does not speak TLS on this port; use http://"]);
}

#[test]
fn what_is_wrong_with_a_certificate_that_is_its_own_authority_is_said_in_words() {
    let folder = folder(&[]);
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (certificate, key) = (at("cert.pem"), at("key.pem"));
    // What `openssl req -x509` makes by itself.
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-keyout", &key, "-out", &certificate])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let read = |path: &str| std::fs::read(path).unwrap();
    let server =
        Background::start(behaviour().tls(Tls::new(&read(&certificate), &read(&key)).unwrap()));
    let https = format!("https://{}", server.address);
    let refused = run(root(), &["call", &https, "Look", "--cacert", &certificate]);
    refused.check(3, &["self-signed as an authority", "basicConstraints=critical,CA:FALSE"]);
    assert!(!refused.stderr.contains("CaUsedAsEndEntity"), "{}", refused.stderr);
}

#[test]
fn a_server_without_reflection_says_what_to_do() {
    let server = Background::start(behaviour().reflection(false));
    let place = &*server.address;
    run(root(), &["call", place, "Look"]).check(3, &["the server has no reflection", "--proto"]);
    run(root(), &["list", place]).check(3, &["the server has no reflection"]);
    run(root(), &["call", "--deadline", "20s", place, "Look"]).check(3, &["no reflection"]);
    let protos = behaviour_protos();
    run(root(), &["call", place, "Look", "{\"key\":\"a\"}", "--proto", &protos])
        .check(0, &["{\"value\":\"a\"}\n"]);
}

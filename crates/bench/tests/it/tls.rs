//! Targets behind TLS: trust, ALPN, bodies larger than a record, failures that say what to do.
//!
//! `tls/certificate.pem` is for localhost and 127.0.0.1, signed by `tls/authority.pem`, whose key
//! no longer exists.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::harness::{Manner, Peer, Seen, answer, bench, measured, serve};

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/tls/authority.pem");

fn file(name: &str) -> std::path::PathBuf {
    Path::new(AUTHORITY).with_file_name(name)
}

/// A server's side of TLS that agrees to one of `protocols`.
pub(crate) fn server_config(protocols: &[&[u8]]) -> Arc<ServerConfig> {
    let certificate = CertificateDer::from_pem_file(file("certificate.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(file("key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(config)
}

/// An HTTP/1.1 server behind TLS.
fn start(
    config: Arc<ServerConfig>,
    manner: impl Fn(&Seen) -> Manner + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let manner = Arc::new(manner);
    std::thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let (config, manner) = (Arc::clone(&config), Arc::clone(&manner));
            std::thread::spawn(move || {
                let connection = ServerConnection::new(config).unwrap();
                let mut stream = StreamOwned::new(connection, socket);
                serve(&mut stream, &AtomicU64::new(0), &AtomicU64::new(0), &*manner);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    url
}

#[test]
fn requests_over_tls_are_answered_whatever_their_size() {
    let large = "x".repeat(300_000);
    let url = start(server_config(&[b"h2", b"http/1.1"]), move |seen| {
        let body = if seen.body.is_empty() { "hello" } else { &large };
        Manner::Answer(answer(200, body))
    });
    let trust = ["--cacert", AUTHORITY];
    let run =
        |extra: &[&str]| measured(&[&[url.as_str(), "-n", "200"], &trust[..], extra].concat());
    let (_, result, text) = run(&["--expect-body", "hello"]);
    assert_eq!(result.requests.ok, 200, "{text}");
    assert_eq!(result.load.target, url);
    let (_, result, text) = run(&["--depth", "8", "-c", "2", "--body", &"y".repeat(100_000)]);
    assert_eq!(result.requests.ok, 200, "{text}");
    assert!(result.requests.bytes > 200 * 300_000);
    let (_, result, text) = run(&["--new-connections", "-c", "4"]);
    assert_eq!((result.requests.ok, result.latency.connect.count), (200, 200), "{text}");
}

#[test]
fn an_answer_that_only_the_end_completes_is_whole() {
    let url = start(server_config(&[]), |_| {
        Manner::Close("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nto the end".to_owned())
    });
    let arguments = [&url, "--insecure", "-n", "20", "-c", "2", "--expect-body", "to the end"];
    let (_, result, text) = measured(&arguments);
    assert_eq!(result.requests.ok, 20, "{text}");
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_an_error_unless_told_otherwise() {
    let url = start(server_config(&[]), |_| Manner::Answer(answer(200, "hello")));
    let error = bench(&["run", &url, "-n", "1"]).error();
    assert!(error.contains("--cacert FILE") || error.contains("--cacert"), "{error}");
    let (_, result, text) = measured(&[&url, "-n", "10", "--insecure"]);
    assert_eq!(result.requests.ok, 10, "{text}");
    let error = bench(&["run", &url, "--cacert", "/no/such/file"]).error();
    assert!(error.contains("--cacert /no/such/file"), "{error}");
    let key = file("key.pem").display().to_string();
    let error = bench(&["run", &url, "--cacert", &key]).error();
    assert!(error.contains("key.pem: TLS authorities cannot be used"), "{error}");
    let other = url.replace("127.0.0.1", "127.0.0.2");
    let named = bench(&["run", &other, "--cacert", AUTHORITY]).error();
    assert!(named.contains("127.0.0.2"), "{named}");
}

#[test]
fn one_certificate_is_accepted_whoever_signed_it_and_no_other() {
    let url = start(server_config(&[]), |_| Manner::Answer(answer(200, "hello")));
    let own = file("certificate.pem").display().to_string();
    let (_, result, text) = measured(&[&url, "-n", "10", "--server-cert", &own]);
    assert_eq!(result.requests.ok, 10, "{text}");
    // The authority that signed it is another certificate.
    let error = bench(&["run", &url, "--server-cert", AUTHORITY]).error();
    assert!(error.contains("cannot speak TLS") || error.contains("certificate"), "{error}");
    let error = bench(&["run", &url, "--server-cert", "/no/such/file"]).error();
    assert!(error.contains("--server-cert /no/such/file"), "{error}");
}

#[test]
fn a_target_that_does_not_agree_to_the_protocol_is_an_error() {
    let url = start(server_config(&[b"http/1.1"]), |_| Manner::Answer(answer(200, "hello")));
    let error = bench(&["run", &url, "--http2", "--insecure"]).error();
    assert!(error.contains("HTTP/2 over TLS"), "{error}");
    let plain = Peer::start(|_| Manner::Close("what?".to_owned()));
    let url = plain.url().replace("http://", "https://");
    let error = bench(&["run", &url, "--insecure"]).error();
    assert!(error.contains("is it a TLS port"), "{error}");
}

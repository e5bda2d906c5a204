//! Certificates whose time is over, or has not come: whoever shows one is not believed, on either
//! side.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tidewire::server::Tls;
use tidewire::{Client, Code};
use tidewire_tests::proto::BehaviourServiceClient;

use crate::harness::{behaviour, start};

/// Its own authority, and what it signs.
struct Authority {
    folder: TempDir,
    pem: Vec<u8>,
}

/// A certificate chain and its key.
type Identity = (Vec<u8>, Vec<u8>);

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let settings = format!(
            "[ca]\ndefault_ca=it\n[it]\ndatabase={0}/index\nnew_certs_dir={0}\nrand_serial=yes\n\
             default_md=sha256\npolicy=any\ncopy_extensions=copy\nunique_subject=no\n\
             [any]\ncommonName=supplied\n",
            path.display()
        );
        std::fs::write(path.join("settings"), settings).unwrap();
        std::fs::write(path.join("index"), "").unwrap();
        let mut made = request(path, "authority");
        run(made.args(["-x509", "-days", "2", "-out", "authority.pem"]));
        let pem = std::fs::read(path.join("authority.pem")).unwrap();
        Self { folder, pem }
    }

    /// A certificate for `localhost` of this time, `YYMMDD…` from and to.
    fn signed(&self, from: &str, to: &str) -> Identity {
        let path = self.folder.path();
        let mut asked = request(path, "signed");
        asked.args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-out", "signed.csr"]);
        run(&mut asked);
        let mut sign = Command::new("openssl");
        sign.current_dir(path).args(["ca", "-batch", "-notext", "-config", "settings"]);
        sign.args(["-cert", "authority.pem", "-keyfile", "authority.key", "-in", "signed.csr"]);
        run(sign.args(["-startdate", from, "-enddate", to, "-out", "signed.pem"]));
        let read = |name: &str| std::fs::read(path.join(name)).unwrap();
        (read("signed.pem"), read("signed.key"))
    }

    /// What a certificate may be: of now, of the past and of the future.
    fn times(&self) -> [(&'static str, Identity); 3] {
        [
            ("good", self.signed("200101000000Z", "20990101000000Z")),
            ("expired", self.signed("200101000000Z", "200102000000Z")),
            ("not valid yet", self.signed("20980101000000Z", "20990101000000Z")),
        ]
    }

    fn trusted(&self) -> tidewire::client::Tls {
        tidewire::client::Tls::new().authorities(self.pem.clone())
    }
}

/// The begin of a request for a certificate with its own key.
fn request(folder: &Path, name: &str) -> Command {
    let mut openssl = Command::new("openssl");
    openssl.current_dir(folder).args(["req", "-newkey", "ec", "-pkeyopt"]);
    openssl.args(["ec_paramgen_curve:P-256", "-nodes", "-subj", &format!("/CN={name}")]);
    openssl.arg("-keyout").arg(PathBuf::from(format!("{name}.key")));
    openssl
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What becomes of a call.
async fn called(address: SocketAddr, tls: tidewire::client::Tls) -> Result<(), (Code, String)> {
    let url = format!("https://localhost:{}", address.port());
    let client = Client::builder(url).tls(tls).build().unwrap();
    let reply = BehaviourServiceClient::new(client.channel()).look(Default::default()).await;
    reply.map(drop).map_err(|error| (error.code(), error.message().to_owned()))
}

#[tokio::test]
async fn a_server_whose_certificate_is_of_another_time_is_not_called() {
    let authority = Authority::new();
    for (what, (certificate, key)) in authority.times() {
        let (builder, _) = behaviour();
        let (_running, address) = start(builder.tls(Tls::new(&certificate, &key).unwrap())).await;
        let outcome = called(address, authority.trusted()).await;
        if what == "good" {
            assert_eq!(outcome, Ok(()));
            continue;
        }
        let (code, message) = outcome.unwrap_err();
        assert_eq!(code, Code::Unavailable, "{what}: {message}");
        assert!(message.contains("certificate is not accepted"), "{what}: {message}");
        assert!(message.contains(what), "{what}: {message}");
    }
}

#[tokio::test]
async fn a_client_whose_certificate_is_of_another_time_gets_no_answer_and_others_do() {
    let authority = Authority::new();
    let [(_, server), ..] = authority.times();
    let tls = Tls::with_client_authorities(&server.0, &server.1, &authority.pem).unwrap();
    let (builder, _) = behaviour();
    let (_running, address) = start(builder.tls(tls)).await;
    for (what, (certificate, key)) in authority.times() {
        let outcome = called(address, authority.trusted().identity(certificate, key)).await;
        match what {
            "good" => assert_eq!(outcome, Ok(())),
            _ => assert_eq!(outcome.unwrap_err().0, Code::Unavailable, "{what}"),
        }
    }
    let [(_, good), ..] = authority.times();
    assert_eq!(called(address, authority.trusted().identity(good.0, good.1)).await, Ok(()));
}

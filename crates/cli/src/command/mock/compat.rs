//! `tidewire mock --compat wishmock`: its ports, environment names and admin routes.
//!
//! | name | default | is |
//! |---|---|---|
//! | `GRPC_PORT_PLAINTEXT`, `GRPC_PORT` | 50050 | the port of gRPC |
//! | `CONNECT_PORT`, `CONNECT_ENABLED` | 50052, true | the port of Connect |
//! | `GRPC_PORT_TLS`, `GRPC_TLS_ENABLED`, `GRPC_TLS_CERT_PATH`, `GRPC_TLS_KEY_PATH`, `GRPC_TLS_CA_PATH`, `GRPC_TLS_REQUIRE_CLIENT_CERT` | 50051, false | gRPC over TLS |
//! | `HTTP_PORT` | 4319 | the admin routes |
//! | `VALIDATION_ENABLED` | false | as `--validate` |
//! | `HOT_RELOAD_PROTOS`, `HOT_RELOAD_RULES` | true | with both false as `--no-watch` |
//!
//! Every port takes every protocol. All of them are of 127.0.0.1; wishmock's are of every address.

use std::sync::{Arc, OnceLock};

use anyhow::anyhow;
use futures_util::StreamExt as _;
use tidewire::admin::{Token, Wishmock, WishmockPorts};
use tidewire::config::Config;
use tidewire::http::Method;
use tidewire::http::header::CONTENT_TYPE;
use tidewire::mock::{Json, Mock, MockFolders, json, serve};
use tidewire::server::{StartError, Tls, TlsFiles};
use tidewire::service::{Frame, Protocol};
use tidewire::{
    Address, Body, Call, Client, Codec, Error, Reply, RunningServer, Server, Service as _, bytes,
};

use crate::failure::Failure;

/// What wishmock's environment says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WishmockOptions {
    grpc: u16,
    connect: Option<u16>,
    tls: Option<(u16, TlsFiles)>,
    admin: u16,
    pub(super) validates: bool,
    pub(super) watches: bool,
}

impl WishmockOptions {
    /// What variables say.
    ///
    /// # Errors
    /// A value that is not a port, or TLS without its files.
    pub(super) fn of(get: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let port = |names: &[&str], default: u16| {
            let Some((name, text)) = names.iter().find_map(|name| Some((name, get(name)?))) else {
                return Ok(default);
            };
            let wrong = || Failure::usage(anyhow!("{name} = {text:?} is not a port"));
            text.parse::<u16>().map_err(|_| wrong())
        };
        let is_on = |name: &str, default: bool| {
            get(name).map_or(default, |text| text.eq_ignore_ascii_case("true") || text == "1")
        };
        let file = |name: &str| {
            let missing = || Failure::usage(anyhow!("GRPC_TLS_ENABLED wants {name} too"));
            get(name).map(Into::into).ok_or_else(missing)
        };
        let connect = match is_on("CONNECT_ENABLED", true) {
            true => Some(port(&["CONNECT_PORT"], 50052)?),
            false => None,
        };
        let tls = match is_on("GRPC_TLS_ENABLED", false) {
            true => Some((
                port(&["GRPC_PORT_TLS"], 50051)?,
                TlsFiles {
                    certificate: file("GRPC_TLS_CERT_PATH")?,
                    key: file("GRPC_TLS_KEY_PATH")?,
                    also: Vec::new(),
                    client_authorities: get("GRPC_TLS_CA_PATH").map(Into::into),
                    clients_optional: !is_on("GRPC_TLS_REQUIRE_CLIENT_CERT", false),
                },
            )),
            false => None,
        };
        Ok(Self {
            grpc: port(&["GRPC_PORT_PLAINTEXT", "GRPC_PORT"], 50050)?,
            connect,
            tls,
            admin: port(&["HTTP_PORT"], 4319)?,
            validates: is_on("VALIDATION_ENABLED", false),
            watches: is_on("HOT_RELOAD_PROTOS", true) || is_on("HOT_RELOAD_RULES", true),
        })
    }

    /// Where calls are taken.
    pub(super) fn listen(&self) -> Vec<String> {
        let ports = std::iter::once(self.grpc).chain(self.connect);
        ports.map(|port| format!("127.0.0.1:{port}")).collect()
    }

    /// The servers beside that of the calls: gRPC over TLS, and the admin routes. `is_open` lets
    /// whoever is on this machine change files.
    pub(super) async fn beside(
        &self,
        folders: &MockFolders,
        mock: &Mock,
        config: &Config,
        is_open: bool,
    ) -> Result<Vec<RunningServer>, Failure> {
        let mut servers = Vec::new();
        if let Some((port, files)) = &self.tls {
            let tls = Tls::of_files(files.clone()).map_err(Failure::usage)?;
            let listen = address(*port);
            let server = serve(Server::builder(), mock).validation(self.validates);
            let server = server.listen(listen).tls(tls).start().await;
            servers.push(server.map_err(failed)?);
        }
        let token = match (&config.admin.token_file, is_open) {
            (_, true) => None,
            (Some(file), false) => Some(Token::of_file(file).map_err(Failure::usage)?),
            (None, false) => {
                return Err(Failure::usage(anyhow!(
                    "clients of wishmock's admin routes show no credential; write --compat-open to \
                     let every program of this machine change the files, or set admin.token_file"
                )));
            }
        };
        let ports = WishmockPorts {
            grpc: self.grpc,
            grpc_tls: self.tls.as_ref().map(|(port, _)| *port),
            connect: self.connect,
        };
        let Some(routes) = folders.wishmock(mock, ports, token) else { return Ok(servers) };
        let routes: Wishmock = routes;
        let server = routes.server(address(self.admin)).map_err(Failure::usage)?;
        servers.push(server.start().await.map_err(failed)?);
        Ok(servers)
    }
}

/// What `GET /health` answers on the ports of calls.
pub(super) fn health(
    builder: tidewire::Builder,
    mock: &Mock,
    has_reflection: bool,
) -> tidewire::Builder {
    let mut builder = builder;
    for path in ["/health", "/connect/health"] {
        let mock = mock.clone();
        builder = builder.route(Method::GET, path, move |_: Call| {
            let schema = mock.schema();
            let services: Vec<_> = schema.services().collect();
            let healthy: Json =
                json!({"status": "serving", "services": services, "reflection": has_reflection});
            async move { Reply::json(&healthy) }
        });
    }
    builder
}

/// Answers what wishmock's examples ask for and no RPC protocol has: streams of replies in JSON
/// lines, by a plain POST with JSON, and JSON without envelopes as `application/grpc-web+json`,
/// which is `application/json` by another name there.
///
/// Calls are asked of the server itself in Connect, once it has been [told](Self::ask) where that
/// is, so that callers, rules of validation and of access are as for any other call.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<OnceLock<Client>>);

impl Lines {
    /// `can_ask` says whether the server will be there to be asked.
    pub(super) fn routes(
        &self,
        builder: tidewire::Builder,
        mock: &Mock,
        can_ask: bool,
    ) -> tidewire::Builder {
        let mock = mock.clone();
        let lines = self.clone();
        let builder = builder.web_json_to_routes(can_ask);
        builder.route(Method::POST, "/{service}/{method}", move |call: Call| {
            let mock = mock.clone();
            let lines = lines.clone();
            async move {
                let Some(server) = lines.0.get() else {
                    let why = "lines of JSON are served on TCP addresses without TLS only";
                    return Err(Error::unimplemented(why));
                };
                match is_web_json(&call) {
                    true => without_envelopes(server, call).await,
                    false => in_lines(server, &mock, call).await,
                }
            }
        })
    }

    /// Where the server is. Nobody is asked over TLS, whose certificate may be of another name.
    pub(super) fn ask(&self, running: &RunningServer) -> Result<(), Failure> {
        let handle = running.handle();
        let mut addresses = handle.addresses().iter();
        let address = addresses.find(|address| matches!(address, Address::Tcp(_)));
        let Some(address) = address.filter(|_| !handle.is_tls()) else { return Ok(()) };
        let server = Client::builder(format!("http://{address}")).protocol(Protocol::Connect);
        self.0.set(server.build().map_err(Failure::usage)?).expect("it is told once");
        Ok(())
    }
}

/// Whether a server of this configuration is one that [`Lines::ask`] finds.
pub(super) fn can_be_asked(config: &Config) -> bool {
    let is_tcp = |address: &Address| matches!(address, Address::Tcp(_));
    config.server.tls.is_none() && config.server.listen.iter().any(is_tcp)
}

/// Whether it says that it is gRPC-Web with JSON, and not by which client.
fn is_web_json(call: &Call) -> bool {
    if call.context.header("x-user-agent").is_some() {
        return false;
    }
    let said = call.context.header(CONTENT_TYPE).map_or(&b""[..], |said| said.as_bytes());
    said.get(..WEB_JSON.len()).is_some_and(|start| start.eq_ignore_ascii_case(WEB_JSON))
}

/// Asks the server once more, for JSON by its right name; or, where it has an envelope, for
/// gRPC-Web, where the method is what answers a client with a name.
async fn without_envelopes(server: &Client, mut call: Call) -> tidewire::Result<Reply> {
    let request = std::mem::take(&mut call.body).collect(REQUEST_BYTES_MAX).await?;
    match request.first() {
        Some(0 | 1) => call.set_header("x-user-agent", "unnamed")?,
        _ => call.set_header(CONTENT_TYPE, "application/json")?,
    }
    call.body = Body::Full(if request.is_empty() { "{}".into() } else { request });
    server.call(call).await
}

const WEB_JSON: &[u8] = b"application/grpc-web+json";

async fn in_lines(server: &Client, mock: &Mock, call: Call) -> tidewire::Result<Reply> {
    let service: String = call.param("service")?;
    let name: String = call.param("method")?;
    let interface = mock.schema().interface(&service).ok().flatten();
    let methods = interface.as_ref().map_or(&[][..], |interface| interface.methods());
    let Some(method) = methods.iter().find(|one| one.method == *name) else {
        return Err(Error::unimplemented(format!("no method is called {service}/{name}")));
    };
    if method.kind.client_streams() {
        let why =
            format!("{service}/{name} takes a stream of requests, which a POST with JSON is not");
        return Err(Error::unimplemented(why));
    }
    let request = call.body.collect(REQUEST_BYTES_MAX).await?;
    let request = if request.is_empty() { "{}".into() } else { request };
    let asked = Call::method(method.clone(), call.context, Codec::Json, request);
    let reply = match server.call(asked).await {
        Ok(reply) => reply.map(Body::into_frames),
        Err(error) => Reply::new(Body::Full(error_line(&error))).map(Body::into_frames),
    };
    let lines = reply.map(|frames| {
        Body::frames(frames.filter_map(|frame| async {
            match frame {
                Ok(Frame::Data(message)) => {
                    let is_line = message.ends_with(b"\n");
                    let end: &[u8] = if is_line { b"" } else { b"\n" };
                    Some(Ok(Frame::Data([&message[..], end].concat().into())))
                }
                Ok(_) => None,
                Err(error) => Some(Ok(Frame::Data(error_line(&error)))),
            }
        }))
    });
    lines.with_header(CONTENT_TYPE, "application/json")
}

fn error_line(error: &Error) -> bytes::Bytes {
    let code = error.code().as_str();
    format!("{}\n", json!({"error": {"code": code, "message": error.message()}})).into()
}

/// The most bytes of one request.
const REQUEST_BYTES_MAX: usize = 4 << 20;

fn address(port: u16) -> Address {
    Address::Tcp(std::net::SocketAddr::from(([127, 0, 0, 1], port)))
}

fn failed(error: StartError) -> Failure {
    match error {
        StartError::Listen { .. } => Failure::from(error),
        error => Failure::usage(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_environment_are_wishmocks() {
        let of = |pairs: &'static [(&str, &str)]| {
            WishmockOptions::of(|name| {
                let found = pairs.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let unset = of(&[]).ok().unwrap();
        assert_eq!(unset.listen(), ["127.0.0.1:50050", "127.0.0.1:50052"]);
        assert_eq!(
            (unset.admin, &unset.tls, unset.validates, unset.watches),
            (4319, &None, false, true)
        );
        let set = of(&[
            ("GRPC_PORT", "7"),
            ("CONNECT_ENABLED", "false"),
            ("HTTP_PORT", "9"),
            ("GRPC_TLS_ENABLED", "TRUE"),
            ("GRPC_TLS_CERT_PATH", "a.crt"),
            ("GRPC_TLS_KEY_PATH", "a.key"),
            ("VALIDATION_ENABLED", "1"),
            ("HOT_RELOAD_PROTOS", "false"),
            ("HOT_RELOAD_RULES", "0"),
        ]);
        let set = set.ok().unwrap();
        assert_eq!(set.listen(), ["127.0.0.1:7"]);
        assert_eq!((set.admin, set.validates, set.watches), (9, true, false));
        assert_eq!(set.tls.unwrap().0, 50051);
        for pairs in [&[("HTTP_PORT", "http")][..], &[("GRPC_TLS_ENABLED", "true")]] {
            assert_eq!(
                WishmockOptions::of(|name| {
                    pairs.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned())
                })
                .err()
                .unwrap()
                .code,
                2
            );
        }
    }
}

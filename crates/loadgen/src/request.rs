//! From a described request to the bytes a codec sends.
//!
//! Each protocol adds its own headers and wraps the body its own way; after that a request is a
//! [`Wire`]. A request without templates is encoded once per run, not once per send. Bodies are
//! bytes: JSON text for the JSON codecs, encoded messages for protobuf. With a schema
//! (`--proto`) the body is JSON in any case, and is encoded here.

use tidewire_wire::EnvelopeHead;

use crate::http2::hpack::Block;
use crate::schema::Messages;
use crate::template::{Generator, Template};
use crate::verdict::Dialect;

/// What is spoken on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
    /// A WebSocket, by upgrade of HTTP/1.1.
    WebSocket,
    /// The live protocol.
    Live,
}

/// How calls are expressed on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Plain HTTP.
    Plain,
    /// Connect, unary by POST.
    Connect,
    /// Connect, unary by GET.
    ConnectGet,
    /// Connect, streams.
    ConnectStream,
    /// gRPC.
    Grpc,
    /// gRPC-Web, binary.
    GrpcWeb,
    /// Messages of a WebSocket.
    WebSocket,
    /// Calls of methods over the live protocol.
    Live,
}

/// How messages are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageCodec {
    /// JSON.
    Json,
    /// Protobuf.
    Proto,
}

/// Everything about the protocol that is the same for every request of a run.
#[derive(Debug, Clone)]
pub struct ProtocolSetup {
    /// What carries it.
    pub transport: Transport,
    /// What is spoken.
    pub protocol: Protocol,
    /// How messages are encoded.
    pub codec: MessageCodec,
    /// Messages per request in calls whose client side is a stream.
    pub messages: usize,
    /// Value of `host` or `:authority`.
    pub authority: String,
    /// TLS is below it.
    pub secure: bool,
    /// Ask the target to close after each answer.
    pub closes: bool,
}

impl ProtocolSetup {
    pub(crate) fn dialect(&self) -> Dialect {
        match self.protocol {
            Protocol::Grpc => Dialect::Grpc,
            Protocol::GrpcWeb => Dialect::GrpcWeb,
            Protocol::ConnectStream => Dialect::ConnectStream,
            _ => Dialect::Plain,
        }
    }
}

/// A request as described on the command line or in a scenario.
#[derive(Debug, Clone)]
pub struct Request {
    /// HTTP method.
    pub method: String,
    /// Path with query.
    pub path: Template,
    /// Headers in order.
    pub headers: Vec<(String, Template)>,
    /// The body.
    pub body: Body,
    /// Turns the body from JSON into protobuf.
    pub messages: Option<Messages>,
}

/// A body as described.
#[derive(Debug, Clone)]
pub enum Body {
    /// The same for every request.
    Bytes(Vec<u8>),
    /// Filled for every request.
    Template(Template),
}

/// The bytes of one request: everything for HTTP/1.1; header block and body apart for HTTP/2; for
/// the live protocol request line and headers, and the message apart.
#[derive(Debug, Clone, Default)]
pub struct Wire {
    pub head: Vec<u8>,
    pub(crate) block: Block,
    pub body: Vec<u8>,
}

impl Request {
    /// Whether it is the same every time.
    pub fn is_fixed(&self) -> bool {
        let body = match &self.body {
            Body::Bytes(_) => true,
            Body::Template(template) => template.is_fixed(),
        };
        body && self.path.is_fixed() && self.headers.iter().all(|(_, value)| value.is_fixed())
    }

    /// Fills the templates and encodes; the error, about a body that does not fit its schema, is
    /// for a person.
    pub fn encode(
        &self,
        speech: &ProtocolSetup,
        values: &[String],
        generator: &mut Generator,
        wire: &mut Wire,
    ) -> Result<(), String> {
        let mut body = match &self.body {
            Body::Bytes(bytes) => bytes.clone(),
            Body::Template(template) => template.render(values, generator).into_bytes(),
        };
        if let Some(messages) = &self.messages {
            body = messages.encode(&body)?;
        }
        let mut filled = RenderedRequest {
            method: self.method.clone(),
            path: self.path.render(values, generator),
            headers: self
                .headers
                .iter()
                .map(|(name, value)| (name.to_ascii_lowercase(), value.render(values, generator)))
                .collect(),
            body,
        };
        filled.dress(speech)?;
        generator.sequence += generator.stride;
        wire.head.clear();
        wire.body.clear();
        match speech.transport {
            Transport::Http1 => filled.http1(speech, &mut wire.head),
            Transport::Http2 => {
                filled.http2(speech, &mut wire.block);
                if !self.is_fixed() {
                    // What changes must not fill the target's table.
                    wire.block.first.clear();
                }
                wire.body = filled.body;
            }
            Transport::WebSocket => wire.head = filled.body,
            Transport::Live => {
                filled.line_and_headers(&mut wire.head);
                wire.body = filled.body;
            }
        }
        Ok(())
    }
}

/// A request whose templates are filled.
struct RenderedRequest {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl RenderedRequest {
    /// Adds what the protocol asks for.
    fn dress(&mut self, speech: &ProtocolSetup) -> Result<(), String> {
        let json = speech.codec == MessageCodec::Json;
        let pick = |json_type: &'static str, proto_type| if json { json_type } else { proto_type };
        match speech.protocol {
            Protocol::Plain | Protocol::WebSocket | Protocol::Live => return Ok(()),
            Protocol::Connect => {
                self.header("content-type", pick("application/json", "application/proto"));
                self.header("connect-protocol-version", "1");
            }
            Protocol::ConnectGet => {
                self.method = "GET".to_owned();
                let separator = if self.path.contains('?') { '&' } else { '?' };
                let encoding = pick("json", "proto");
                let message = base64_url(&std::mem::take(&mut self.body));
                self.path = format!(
                    "{}{separator}connect=v1&encoding={encoding}&base64=1&message={message}",
                    self.path
                );
                return Ok(());
            }
            Protocol::ConnectStream => {
                let kind = pick("application/connect+json", "application/connect+proto");
                self.header("content-type", kind);
                self.header("connect-protocol-version", "1");
                self.wrap(speech.messages)?;
            }
            Protocol::Grpc => {
                self.header("content-type", pick("application/grpc+json", "application/grpc"));
                self.header("te", "trailers");
                self.wrap(speech.messages)?;
            }
            Protocol::GrpcWeb => {
                let kind = pick("application/grpc-web+json", "application/grpc-web+proto");
                self.header("content-type", kind);
                self.header("x-grpc-web", "1");
                self.wrap(speech.messages)?;
            }
        }
        self.method = "POST".to_owned();
        Ok(())
    }

    /// Adds a header unless the user gave it.
    fn header(&mut self, name: &str, value: &str) {
        if !self.headers.iter().any(|(known, _)| known == name) {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
    }

    fn wrap(&mut self, messages: usize) -> Result<(), String> {
        let message = std::mem::take(&mut self.body);
        let head = EnvelopeHead::of(&message).map_err(|error| error.message().to_owned())?;
        for _ in 0..messages {
            self.body.extend_from_slice(&head.bytes());
            self.body.extend_from_slice(&message);
        }
        Ok(())
    }

    fn line_and_headers(&self, out: &mut Vec<u8>) {
        let mut line = |parts: &[&str]| parts.iter().for_each(|part| out.extend(part.as_bytes()));
        line(&[&self.method, " ", &self.path, "\n"]);
        for (name, value) in &self.headers {
            line(&[name, ": ", value, "\n"]);
        }
    }

    fn has_body(&self) -> bool {
        !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH")
    }

    fn http1(&self, speech: &ProtocolSetup, out: &mut Vec<u8>) {
        let mut line = |parts: &[&str]| parts.iter().for_each(|part| out.extend(part.as_bytes()));
        line(&[&self.method, " ", &self.path, " HTTP/1.1\r\n"]);
        let has = |wanted: &str| self.headers.iter().any(|(name, _)| name == wanted);
        if !has("host") {
            line(&["host: ", &speech.authority, "\r\n"]);
        }
        for (name, value) in &self.headers {
            line(&[name, ": ", value, "\r\n"]);
        }
        if self.has_body() && !has("content-length") {
            line(&["content-length: ", &self.body.len().to_string(), "\r\n"]);
        }
        if speech.closes && !has("connection") {
            line(&["connection: close\r\n"]);
        }
        line(&["\r\n"]);
        out.extend_from_slice(&self.body);
    }

    fn http2(&self, speech: &ProtocolSetup, block: &mut Block) {
        let host = self.headers.iter().find(|(name, _)| name == "host");
        let length = self.body.len().to_string();
        let mut fields = vec![
            (":method", self.method.as_str()),
            (":scheme", if speech.secure { "https" } else { "http" }),
            (":path", self.path.as_str()),
            (":authority", host.map_or(&speech.authority, |(_, value)| value).as_str()),
        ];
        fields.extend(
            self.headers
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .filter(|(name, _)| !matches!(*name, "host" | "connection" | "transfer-encoding")),
        );
        if self.has_body() && speech.protocol != Protocol::Grpc {
            fields.push(("content-length", &length));
        }
        block.encode(&fields);
    }
}

/// Base64 with the URL alphabet and without padding, as Connect GET wants it.
fn base64_url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..=chunk.len() {
            let index = bits >> (18 - 6 * digit) & 63;
            out.push(char::from(ALPHABET[index as usize]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(protocol: Protocol, body: &str) -> String {
        let speech = ProtocolSetup {
            transport: Transport::Http1,
            protocol,
            codec: MessageCodec::Json,
            messages: 2,
            authority: "host:1".to_owned(),
            secure: false,
            closes: false,
        };
        let request = Request {
            method: "GET".to_owned(),
            path: Template::literal("/p.S/M"),
            headers: vec![("X-A".to_owned(), Template::literal("b"))],
            body: Body::Bytes(body.as_bytes().to_vec()),
            messages: None,
        };
        let mut wire = Wire::default();
        let mut generator = Generator { random: fastrand::Rng::new(), sequence: 0, stride: 1 };
        request.encode(&speech, &[], &mut generator, &mut wire).unwrap();
        String::from_utf8(wire.head).unwrap()
    }

    #[test]
    fn each_protocol_dresses_a_request_its_own_way() {
        let plain = encoded(Protocol::Plain, "");
        assert_eq!(plain, "GET /p.S/M HTTP/1.1\r\nhost: host:1\r\nx-a: b\r\n\r\n");
        let connect = encoded(Protocol::Connect, "{}");
        assert!(connect.starts_with("POST /p.S/M") && connect.ends_with("\r\n\r\n{}"));
        assert!(connect.contains("content-type: application/json\r\nconnect-protocol-version: 1"));
        let get = encoded(Protocol::ConnectGet, "{\"a\":1}");
        assert!(
            get.starts_with("GET /p.S/M?connect=v1&encoding=json&base64=1&message=eyJhIjoxfQ ")
        );
        let web = encoded(Protocol::GrpcWeb, "m");
        assert!(web.contains("content-length: 12\r\n"));
        assert!(web.ends_with("\0\0\0\0\x01m\0\0\0\0\x01m"));
    }
}

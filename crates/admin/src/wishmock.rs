//! The admin routes of wishmock, for its clients: `tidewire mock --compat wishmock`.
//!
//! | route | answers |
//! |---|---|
//! | `GET /`, `/liveness`, `/readiness` | `{"ok":true}`, `{"status":"alive"}`, `{"status":"ready"}`; whoever asks |
//! | `GET /admin/status`, `/admin/services`, `/admin/schema/{type}` | what is mocked |
//! | `GET /admin/protos`, `/admin/rules/grpc` | `{"files":[…]}` |
//! | `GET`, `PUT` `/admin/proto/{name}`, `/admin/rule/grpc/{name}` | a file; `{"ok":true,"filename":…,"saved":…}` |
//! | `POST /admin/upload/proto`, `/admin/upload/proto/path`, `/admin/upload/rule/grpc` | `{"ok":true,"saved":…}` |
//!
//! Forms of answers are wishmock's. Names are those of `mocks/folder.rs`: its clients could write
//! anywhere. A change is in effect when its answer comes. Its clients show no credential; who
//! lets them come without one does so for loopback only.

use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use tidewire_mock::Mock;
use tidewire_schema::{Kind, Schema, Single};
use tidewire_server::{AccessRules, Address, Builder, Server};
use tidewire_service::{
    Access, Admission, Call, Error, Gate, Head, Reply, Result, StreamKind, Target,
};

use crate::guard::{self, Guard};
use crate::mocks::folder::RuleFolder;
use crate::mocks::protos::ProtoFolder;
use crate::{ACT, Token};

/// What the routes tell of and change.
#[derive(Clone)]
pub struct Wishmock {
    /// The mock.
    pub mock: Mock,
    /// The folder with its `.proto` files.
    pub protos: ProtoFolder,
    /// The folder with `grpc` in it, where the rule files are.
    pub rules: RuleFolder,
    /// Where calls are served.
    pub ports: WishmockPorts,
    /// What callers show; `None` lets whoever is on this machine come.
    pub token: Option<Token>,
}

/// The ports of a mock.
#[derive(Debug, Clone, Copy)]
pub struct WishmockPorts {
    /// gRPC.
    pub grpc: u16,
    /// gRPC over TLS.
    pub grpc_tls: Option<u16>,
    /// Connect.
    pub connect: Option<u16>,
}

/// The most bytes of a body, as there.
const BODY_BYTES_MAX: usize = 10 << 20;

impl Wishmock {
    /// The server of these routes.
    ///
    /// # Errors
    /// When the address can be reached from elsewhere.
    pub fn server(self, listen: Address) -> Result<Builder> {
        if !listen.is_local() {
            let why = format!("wishmock's admin routes are for loopback only, and {listen} is not");
            return Err(Error::invalid_argument(why));
        }
        let access = AccessRules::default()
            .otherwise(Access::scopes(&[ACT]))
            .path("/", Access::Anonymous)
            .path("/liveness", Access::Anonymous)
            .path("/readiness", Access::Anonymous);
        let guard = self.token.clone().map(|operator| Guard {
            operator,
            reader: None,
            sign_in: crate::SignIn::default(),
        });
        let mut builder =
            Server::builder().listen(listen).gate(RouteGuard { guard }).access(access);
        let this = Arc::new(self);
        for (verb, template, answer) in ROUTES {
            let this = Arc::clone(&this);
            builder = builder.route(verb.clone(), template, move |call: Call| {
                let this = Arc::clone(&this);
                async move { Ok(this.route(call, *answer).await) }
            });
        }
        Ok(builder)
    }

    async fn route(self: Arc<Self>, mut call: Call, answer: Route) -> Reply {
        let name = call.http_target().and_then(|target| target.params.value("name"));
        let name = name.unwrap_or_default().to_owned();
        let body = std::mem::take(&mut call.body).collect(BODY_BYTES_MAX).await;
        let answered = match body {
            Ok(body) if body.is_empty() => Ok(Value::Null),
            Ok(body) => serde_json::from_slice(&body)
                .map_err(|why| Error::invalid_argument(format!("this is not JSON: {why}"))),
            Err(error) => Err(error),
        };
        let answered = match answered {
            Ok(body) => {
                let done = move || answer(&self, &name, &body);
                let done = tokio::task::spawn_blocking(done).await;
                done.unwrap_or_else(|_| Err(Error::internal("it panicked")))
            }
            Err(error) => Err(error),
        };
        answered.and_then(|body| Reply::json(&body)).unwrap_or_else(|error| {
            let body = json!({"error": error.message()});
            let reply = Reply::json(&body).unwrap_or_else(|_| Reply::text("{}"));
            reply.with_status(error.http_status())
        })
    }
}

/// What answers a route: the name in its path, and the body.
type Route = fn(&Wishmock, &str, &Value) -> Result<Value>;

const ROUTES: &[(Method, &str, Route)] = &[
    (Method::GET, "/", |_, _, _| Ok(json!({"ok": true}))),
    (Method::GET, "/liveness", |_, _, _| Ok(json!({"status": "alive"}))),
    (Method::GET, "/readiness", |_, _, _| Ok(json!({"status": "ready"}))),
    (Method::GET, "/admin/status", |this, _, _| this.status()),
    (Method::GET, "/admin/services", |this, _, _| Ok(services(&this.mock.schema()))),
    (Method::GET, "/admin/schema/{name}", |this, name, _| schema(&this.mock.schema(), name)),
    (Method::GET, "/admin/protos", |this, _, _| this.protos()),
    (Method::GET, "/admin/proto/{name}", |this, name, _| this.proto(name)),
    (Method::PUT, "/admin/proto/{name}", |this, name, body| {
        let saved = this.save_proto(name, content(body)?)?;
        Ok(json!({"ok": true, "filename": name, "saved": saved}))
    }),
    (Method::POST, "/admin/upload/proto", |this, _, body| {
        let saved = this.save_proto(member(body, "filename")?, content(body)?)?;
        Ok(json!({"ok": true, "saved": saved}))
    }),
    (Method::POST, "/admin/upload/proto/path", |this, _, body| {
        let saved = this.save_proto(member(body, "path")?, content(body)?)?;
        Ok(json!({"ok": true, "saved": saved}))
    }),
    (Method::GET, "/admin/rules/grpc", |this, _, _| this.rule_files()),
    (Method::GET, "/admin/rule/grpc/{name}", |this, name, _| {
        let text = this.rules.read(&format!("grpc/{name}"))?.text;
        Ok(json!({"filename": name, "content": text}))
    }),
    (Method::PUT, "/admin/rule/grpc/{name}", |this, name, body| {
        let saved = this.save_rule(name, content(body)?)?;
        Ok(json!({"ok": true, "filename": name, "saved": saved}))
    }),
    (Method::POST, "/admin/upload/rule/grpc", |this, _, body| {
        let saved = this.save_rule(member(body, "filename")?, content(body)?)?;
        Ok(json!({"ok": true, "saved": saved}))
    }),
];

impl Wishmock {
    fn status(&self) -> Result<Value> {
        let schema = self.mock.schema();
        let WishmockPorts { grpc: plaintext, grpc_tls: tls, connect } = self.ports;
        let services: Vec<_> = schema.services().collect();
        let methods = methods(&schema);
        let loaded: Vec<_> =
            methods.iter().map(|method| method.path.trim_start_matches('/')).collect();
        let rules = self.mock.rules().into_iter();
        let rules = rules.filter(|rules| !rules.file.is_empty() || rules.fault.is_some());
        let rules: Vec<_> = rules.map(|rules| key(&rules.method)).collect();
        Ok(json!({
            "grpc_port": plaintext,
            "grpc_ports": {"plaintext": plaintext, "tls": tls, "tls_enabled": tls.is_some()},
            "connect_rpc": {
                "enabled": connect.is_some(), "port": connect, "tls_enabled": false,
                "services": services, "reflection_enabled": true,
            },
            "loaded_services": loaded,
            "rules": rules,
            "protos": {"loaded": self.protos.names(false), "skipped": []},
            "reload": {"downtime_detected": false},
        }))
    }

    fn protos(&self) -> Result<Value> {
        Ok(json!({"files": self.protos.names(false)}))
    }

    fn proto(&self, name: &str) -> Result<Value> {
        Ok(json!({"filename": name, "content": self.protos.read(name)?}))
    }

    fn save_proto(&self, name: &str, text: &str) -> Result<String> {
        Ok(self.protos.overwrite(name, text)?.0.display().to_string())
    }

    fn rule_files(&self) -> Result<Value> {
        let files = self.rules.files()?;
        let names = files.paths().filter_map(|path| self.rules.name_of(path));
        let names: Vec<_> =
            names.filter_map(|name| name.strip_prefix("grpc/").map(str::to_owned)).collect();
        Ok(json!({"files": names}))
    }

    /// Writes a rule file, also one that is broken, as there: what it said before stays then.
    fn save_rule(&self, name: &str, text: &str) -> Result<String> {
        let saved = self.rules.overwrite(&format!("grpc/{name}"), text)?;
        tracing::warn!(file = name, "a rule file was written by wishmock's admin routes");
        Ok(saved.display().to_string())
    }
}

fn member<'b>(body: &'b Value, name: &str) -> Result<&'b str> {
    let text = body[name].as_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| Error::invalid_argument(format!("{name} required")))
}

fn content(body: &Value) -> Result<&str> {
    member(body, "content")
}

/// `shop.v1.cart.getprice`.
fn key(method: &str) -> String {
    method.replace('/', ".").to_lowercase()
}

fn methods(schema: &Schema) -> Vec<tidewire_service::Method> {
    let interfaces = schema.services().filter_map(|name| schema.interface(name).ok().flatten());
    interfaces.flat_map(|interface| interface.methods().to_vec()).collect()
}

fn services(schema: &Schema) -> Value {
    let services = schema.services().map(|name| {
        let (package, service) = name.rsplit_once('.').unwrap_or(("", name));
        let of = methods(schema).into_iter().filter(|method| *method.service == *name);
        let methods: Vec<_> = of
            .map(|method| {
                json!({
                    "name": &*method.method,
                    "full_method": method.path.trim_start_matches('/'),
                    "rule_key": key(method.path.trim_start_matches('/')),
                    "request_type": &*method.input,
                    "response_type": &*method.output,
                    "request_stream": matches!(method.kind, StreamKind::Client | StreamKind::Bidi),
                    "response_stream": matches!(method.kind, StreamKind::Server | StreamKind::Bidi),
                })
            })
            .collect();
        json!({"name": name, "package": package, "service": service, "methods": methods})
    });
    json!({"services": services.collect::<Vec<_>>()})
}

fn schema(schema: &Schema, name: &str) -> Result<Value> {
    let name = name.trim_start_matches('.');
    if let Some(message) = schema.message_type(name) {
        let fields: Vec<_> = message
            .fields()
            .map(|field| {
                let (kind, of, key) = match field.kind() {
                    Kind::One(one) => ("one", type_of(one), None),
                    Kind::List(one) => ("list", type_of(one), None),
                    Kind::Map { key, value } => {
                        ("map", type_of(value), Some(format!("{key:?}").to_lowercase()))
                    }
                };
                let optional = kind == "one" && field.has_presence() && field.oneof().is_none();
                json!({
                    "name": field.name(), "id": field.number(), "type": of,
                    "repeated": kind == "list", "optional": optional,
                    "map": kind == "map", "keyType": key,
                })
            })
            .collect();
        let oneofs: serde_json::Map<_, _> = message
            .oneofs()
            .map(|oneof| {
                let members: Vec<_> = oneof.fields().map(|field| field.name()).collect();
                (oneof.name().to_owned(), json!({"oneof": members}))
            })
            .collect();
        return Ok(json!({"kind": "message", "name": name, "fields": fields, "oneofs": oneofs}));
    }
    if let Some(found) = schema.enum_type(name) {
        let values: serde_json::Map<_, _> =
            found.values().map(|(name, number)| (name.to_owned(), number.into())).collect();
        return Ok(json!({"kind": "enum", "name": name, "values": values}));
    }
    Err(Error::not_found(format!("type not found: {name}")))
}

fn type_of(one: Single<'_>) -> String {
    match one {
        Single::Scalar(scalar) => format!("{scalar:?}").to_lowercase(),
        Single::Message(message) => message.full_name().to_owned(),
        Single::Enum(found) => found.full_name().to_owned(),
    }
}

/// Keeps pages out, and whoever has no token where one is wanted.
struct RouteGuard {
    guard: Option<Guard>,
}

impl RouteGuard {
    fn decide(&self, head: &mut Head) -> Result<()> {
        let headers = head.context.headers();
        guard::is_ours(headers)?;
        let is_question =
            matches!(&head.target, Target::Http(target) if target.method == Method::GET);
        if !is_question && !guard::is_data(headers) {
            let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
            return Err(Error::invalid_argument("send JSON").with_http_status(status));
        }
        let principal = match &self.guard {
            Some(guard) => guard.principal_of_token(headers)?,
            None => Some(guard::operator()),
        };
        head.context.set_principal(principal);
        Ok(())
    }
}

impl Gate for RouteGuard {
    fn admit(&self, head: &mut Head) -> Admission {
        Admission::Ready(self.decide(head))
    }
}

impl std::fmt::Debug for Wishmock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wishmock").field("protos", &self.protos).finish_non_exhaustive()
    }
}

//! `/docs`: what the services of a server are, for a person with a browser, and calls of them.
//!
//! | at | is |
//! |---|---|
//! | `/docs` | the page |
//! | `/docs/NAME` | its scripts and styles |
//! | `/docs/services.json` | services and methods, with the comments of the `.proto` |
//! | `/docs/methods/SERVICE/METHOD` | a method: its text, the types of its request, a sample |
//! | `/`, if it is a front page | the same as text; a browser is sent to the page |
//!
//! The page calls the services itself, over the protocols that they have anyway, so a call by hand
//! passes the gates and layers of any other. What it tells is what reflection tells: it is on where
//! reflection is on and every address is local, or where it was asked for, and has the access rule
//! of reflection. A route, a mount or a REST binding of the program at its paths stays the
//! program's. A server on which it is off pays nothing.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::Arc;

use buffa::Message as _;
use bytes::Bytes;
use http::header::{ACCEPT, HeaderName, HeaderValue, LOCATION, VARY};
use http::{Method, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tidewire_console::{DOCS, HEADERS};
use tidewire_rest::{Schemas, rest_rules};
use tidewire_schema::{Schema, describe};
use tidewire_service::{Call, Error, Interface, Method as Rpc, Reply, Result, StreamKind};

use crate::gate::own_targets::{DOCS_PATH, is_of_docs};
use crate::services::reloadable::{Edition, ReloadableServices};
use crate::services::routes::Routes;

/// Whether the program has nothing else at the paths of the page. A template that is for any path
/// counts unless the page was asked for.
pub(crate) fn is_free<'a>(
    rest: &tidewire_rest::Rest,
    mut templates: impl Iterator<Item = &'a str>,
    asked: Option<bool>,
) -> bool {
    let is_for_all = |template: &str| {
        matches!(template.trim_start_matches('/').chars().next(), None | Some('{'))
    };
    let is_taken = |template: &str| is_of_docs(template) || asked.is_none() && is_for_all(template);
    let is_bound =
        |path: &&str| !matches!(rest.find(&Method::GET, path), tidewire_rest::RestMatch::Elsewhere);
    !templates.any(is_taken) && !PATHS.iter().any(is_bound)
}

/// Paths that the page needs, of each form.
const PATHS: [&str; 3] = [DOCS_PATH, "/docs/docs.js", "/docs/methods/a.B/C"];

/// What the page is told.
pub(crate) struct Docs {
    /// The services that stay, and those that are others from time to time.
    own: Vec<Interface>,
    offered: Option<Arc<ReloadableServices>>,
    /// The REST bindings that answer: the path of a method, and a template.
    bindings: HashSet<(String, String)>,
    has_document: bool,
    snapshot: Mutex<Option<Arc<Snapshot>>>,
}

/// The services at a time.
struct Snapshot {
    offered: Option<Arc<Edition>>,
    services: Vec<(Interface, Schema)>,
}

impl Docs {
    pub(crate) fn new(
        own: Vec<Interface>,
        offered: Option<Arc<ReloadableServices>>,
        rest: &tidewire_rest::Rest,
    ) -> Self {
        let bound = |(spec, template): (&tidewire_service::Spec, &str)| {
            (spec.path.to_string(), template.to_owned())
        };
        let bindings: HashSet<_> = rest.routes().map(bound).collect();
        let has_document = !bindings.is_empty() && rest.options().openapi == Some(true);
        Self { own, offered, bindings, has_document, snapshot: Mutex::default() }
    }

    /// Adds the page and what it loads.
    pub(crate) fn add_to(self: &Arc<Self>, routes: &mut Routes) {
        for file in DOCS {
            let path = match file.name {
                "docs.html" => DOCS_PATH.to_owned(),
                name => format!("{DOCS_PATH}/{name}"),
            };
            let answer = move |_: Call| async move {
                let bytes = Bytes::from_static(file.bytes);
                Ok::<_, Error>(with_policy(Reply::content(file.content_type, bytes)))
            };
            let _ = routes.add(Method::GET, &path, Arc::new(answer));
        }
        let to_page = |_: Call| async { Ok::<_, Error>(see("../docs")) };
        let _ = routes.add(Method::GET, "/docs/", Arc::new(to_page));
        let docs = Arc::clone(self);
        let list = move |_: Call| aside(Arc::clone(&docs), |docs| Ok(docs.list()));
        let _ = routes.add(Method::GET, "/docs/services.json", Arc::new(list));
        let docs = Arc::clone(self);
        let method = move |call: Call| {
            let docs = Arc::clone(&docs);
            async move {
                let service = call.param::<String>("service")?;
                let method = call.param::<String>("method")?;
                aside(docs, move |docs| docs.method(&service, &method)).await
            }
        };
        let _ = routes.add(Method::GET, "/docs/methods/{service}/{method}", Arc::new(method));
    }

    /// Adds the front page: a text that begins with `title`.
    pub(crate) fn add_front_page(
        self: &Arc<Self>,
        routes: &mut Routes,
        title: &str,
        has_page: bool,
    ) {
        let docs = Arc::clone(self);
        let title = title.to_owned();
        let answer = move |call: Call| {
            let accepted = call.context.headers().get(ACCEPT).map(HeaderValue::as_bytes);
            let is_browser = accepted.is_some_and(|it| it.windows(9).any(|it| it == b"text/html"));
            let docs = Arc::clone(&docs);
            let title = title.clone();
            async move {
                let mut reply = match is_browser && has_page {
                    true => see("docs"),
                    false => Reply::text(docs.text(&title, has_page)),
                };
                reply.headers.insert(VARY, HeaderValue::from_static("accept"));
                Ok::<_, Error>(with_policy(reply))
            }
        };
        let _ = routes.add(Method::GET, "/", Arc::new(answer));
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        let mut snapshot = self.snapshot.lock();
        let offered = self.offered.as_ref().map(|offered| offered.now());
        if let Some(snapshot) = &*snapshot {
            let is_same = match (&snapshot.offered, &offered) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                _ => offered.is_none(),
            };
            if is_same {
                return Arc::clone(snapshot);
            }
        }
        let mut schemas = Schemas::default();
        let more = offered.iter().flat_map(|offered| &offered.services);
        let interfaces = self.own.iter().chain(more.map(|(interface, _)| interface));
        let services = interfaces
            .filter_map(|interface| Some((interface.clone(), schemas.of(interface).ok()?)))
            .collect();
        let new = Arc::new(Snapshot { offered, services });
        *snapshot = Some(Arc::clone(&new));
        new
    }

    fn list(&self) -> Value {
        let snapshot = self.snapshot();
        let services = snapshot.services.iter().map(|(interface, schema)| {
            let pool = schema.pool();
            let name = interface.name();
            let methods: Vec<_> =
                interface.methods().iter().map(|method| self.entry(schema, method)).collect();
            let comment = describe::service_comment(pool, name);
            json!({"name": name, "comment": comment.unwrap_or_default(), "methods": methods})
        });
        json!({"services": services.collect::<Vec<_>>(), "openapi": self.has_document})
    }

    fn entry(&self, schema: &Schema, method: &Rpc) -> Value {
        let comment = describe::method_comment(schema.pool(), &method.service, &method.method);
        json!({
            "path": method.path.trim_start_matches('/'),
            "name": &*method.method,
            "comment": comment.unwrap_or_default(),
            "kind": kind(method.kind),
            "query": method.is_query(),
            "input": &*method.input,
            "output": &*method.output,
            "rest": self.bindings_of(schema, method),
        })
    }

    fn bindings_of(&self, schema: &Schema, method: &Rpc) -> Vec<Value> {
        let service = schema.pool().service_by_name(&method.service);
        let options = service.and_then(|it| it.method(&method.method)?.options());
        let rules = options.and_then(|options| rest_rules(&options.encode_to_vec()).ok());
        let rules = rules.unwrap_or_default().into_iter();
        rules
            .filter(|rule| {
                self.bindings.contains(&(method.path.to_string(), rule.template.clone()))
            })
            .map(|rule| {
                let verb = rule.verb.unwrap_or(Method::POST);
                json!({"verb": verb.as_str(), "template": rule.template, "body": rule.body})
            })
            .collect()
    }

    fn method(&self, service: &str, method: &str) -> Result<Value> {
        let snapshot = self.snapshot();
        let found = snapshot.services.iter().find_map(|(interface, schema)| {
            let mut methods = interface.methods().iter();
            let found = methods.find(|it| it.service == service && it.method == method)?;
            Some((schema, found))
        });
        let nothing = || Error::not_found(format!("no method {service}/{method} is served"));
        let (schema, found) = found.ok_or_else(nothing)?;
        let proto = describe::method_with_messages(schema.pool(), service, method);
        let types = describe::types(schema, &found.input).ok_or_else(nothing)?;
        let sample = describe::template(schema.pool(), &found.input);
        Ok(json!({
            "proto": proto.unwrap_or_default(),
            "types": types.types,
            "cut": types.cut,
            "sample": sample.map_or_else(|| "{}".to_owned(), |sample| sample.line()),
        }))
    }

    fn text(&self, title: &str, has_page: bool) -> String {
        let mut text = format!("{title}\n");
        for (interface, _) in &self.snapshot().services {
            let _ = write!(text, "\n{}\n", interface.name());
            for method in interface.methods() {
                let streams = match method.kind {
                    StreamKind::Unary => String::new(),
                    kind => format!(" ({} stream)", self::kind(kind)),
                };
                let _ = writeln!(text, "  {}{streams}", method.method);
            }
        }
        if has_page {
            text += "\nIn a browser: /docs describes the methods and calls them.\n";
        }
        if self.has_document {
            text += "\nOpenAPI: /openapi.json\n";
        }
        text
    }
}

/// Makes JSON off the threads that serve: a large schema keeps them for as long as thousands of
/// calls would.
async fn aside(
    docs: Arc<Docs>,
    make: impl FnOnce(&Docs) -> Result<Value> + Send + 'static,
) -> Result<Reply> {
    let made = tokio::task::spawn_blocking(move || Reply::json(&make(&docs)?)).await;
    made.map_err(|_| Error::internal("the description cannot be made"))?.map(with_policy)
}

/// Sends a browser to another path, relative to the one that it asked for.
fn see(place: &'static str) -> Reply {
    let mut reply = Reply::empty(StatusCode::TEMPORARY_REDIRECT);
    reply.headers.insert(LOCATION, HeaderValue::from_static(place));
    reply
}

fn with_policy(mut reply: Reply) -> Reply {
    for (name, value) in HEADERS {
        reply.headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}

const fn kind(kind: StreamKind) -> &'static str {
    match kind {
        StreamKind::Unary => "unary",
        StreamKind::Client => "client",
        StreamKind::Server => "server",
        StreamKind::Bidi => "bidi",
    }
}

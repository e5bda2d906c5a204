//! The tools of one caller, and what a call of one does.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tidewire_schema::{Schema, SchemaError, describe};
use tidewire_service::{
    Access, Body, Call, Code, Codec, Context, Error, Method, Principal, Result, Service,
};

use crate::catalog::{EXAMPLES, ToolAction, VERBS, Verb};
use crate::{by_hand, load, shape};

/// What a caller may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allow {
    /// Only look.
    Read,
    /// Change what runs, too.
    Act,
}

/// Tools over whatever answers calls of `tidewire.admin.v1`; cheap to clone.
#[derive(Clone)]
pub struct Tools(Arc<Inner>);

struct Inner {
    schema: Schema,
    service: Arc<dyn Service>,
    allow: Allow,
    mocks: bool,
}

/// A tool as it is listed.
pub(crate) struct ToolDescription {
    pub(crate) verb: Verb,
    pub(crate) description: String,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) reads: bool,
}

impl Tools {
    /// Tools of the services whose descriptors these are. `mocks` says whether there is a mock.
    ///
    /// # Errors
    /// Descriptors that cannot be used.
    pub fn new(
        descriptors: impl Into<Bytes>,
        service: Arc<dyn Service>,
        allow: Allow,
        mocks: bool,
    ) -> Result<Self, SchemaError> {
        let schema = Schema::from_descriptors(descriptors)?;
        Ok(Self(Arc::new(Inner { schema, service, allow, mocks })))
    }

    /// The same for another caller.
    #[must_use]
    pub fn for_caller(&self, allow: Allow, mocks: bool) -> Self {
        let Inner { schema, service, .. } = &*self.0;
        let schema = schema.clone();
        let service = Arc::clone(service);
        Self(Arc::new(Inner { schema, service, allow, mocks }))
    }

    /// The tools that there are for this caller.
    pub(crate) fn list(&self) -> Vec<ToolDescription> {
        VERBS.iter().filter_map(|verb| self.describe(*verb)).collect()
    }

    fn describe(&self, verb: Verb) -> Option<ToolDescription> {
        if verb.mock && !self.0.mocks {
            return None;
        }
        let method = match verb.does {
            ToolAction::Method(name) | ToolAction::Wishmock { method: name, .. } => {
                Some(self.method(name)?)
            }
            ToolAction::Action { service, like, .. } => {
                Some(self.method(&format!("{service}/{like}"))?)
            }
            ToolAction::Overwrite { put, .. } => Some(self.method(put)?),
            ToolAction::ByHand => Some(self.method("Services/Open")?),
            ToolAction::Load => Some(self.method("Loads/Start")?),
            ToolAction::Examples => None,
        };
        let reads = method.as_ref().is_none_or(is_read);
        if !reads && self.0.allow == Allow::Read {
            return None;
        }
        let mut arguments = match (&method, verb.does) {
            (_, ToolAction::ByHand) => by_hand::arguments(),
            (Some(method), _) => shape::of(&self.0.schema, &method.input),
            (None, _) => shape::of(&self.0.schema, ""),
        };
        adapt(&mut arguments, verb.does);
        let said = match (&method, verb.does) {
            (_, ToolAction::ByHand) => by_hand::ABOUT.to_owned(),
            (_, ToolAction::Action { .. }) | (None, _) => String::new(),
            (Some(method), _) => self.comment(method),
        };
        let description = [said.as_str(), verb.hint].join(" ").trim().to_owned();
        Some(ToolDescription { verb, description, arguments, reads })
    }

    /// What a method says of itself.
    fn comment(&self, method: &Method) -> String {
        let pool = self.0.schema.pool();
        let text = describe::method(pool, &method.service, &method.method).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix("//"));
        shape::one_line(&lines.collect::<Vec<_>>().join(" "))
    }

    /// `Calls/List` of the services of an admin listener.
    fn method(&self, name: &str) -> Option<Method> {
        let (service, method) = name.split_once('/')?;
        let interface = self.0.schema.interface(&format!("tidewire.admin.v1.{service}")).ok()??;
        interface.methods().iter().find(|known| known.method == method).cloned()
    }

    /// What a tool answers.
    ///
    /// # Errors
    /// No such tool for this caller, and what the method refuses.
    pub(crate) async fn run(&self, name: &str, mut given: Map<String, Value>) -> Result<Value> {
        let found = VERBS.iter().find(|verb| verb.name == name);
        let none = || Error::not_found(format!("there is no tool {name:?} for you"));
        let described = found.and_then(|verb| self.describe(*verb)).ok_or_else(none)?;
        match described.verb.does {
            ToolAction::Method(method) => self.call(method, given).await,
            ToolAction::Wishmock { method, arguments } => {
                rename(&mut given, arguments);
                if method == "Mocks/GetFile" {
                    self.put_below_grpc(&mut given).await;
                }
                self.call(method, given).await
            }
            ToolAction::Overwrite { get, put } => {
                rename(&mut given, FILE);
                if get == "Mocks/GetFile" {
                    self.put_below_grpc(&mut given).await;
                }
                self.overwrite(get, put, given).await
            }
            ToolAction::Action { service, actions, .. } => {
                let action = given.remove("action").unwrap_or_default();
                let known = actions.iter().find(|known| action.as_str() == Some(known));
                let wrong =
                    || Error::invalid_argument(format!("action is one of {}", actions.join(", ")));
                let action = known.ok_or_else(wrong)?;
                self.call(&format!("{service}/{action}"), given).await
            }
            ToolAction::ByHand => by_hand::run(self, given).await,
            ToolAction::Load => load::run(self, given).await,
            ToolAction::Examples => Ok(json!({"text": EXAMPLES})),
        }
    }

    /// Puts a text into a file, whichever was there.
    async fn overwrite(
        &self,
        get: &str,
        put: &str,
        mut given: Map<String, Value>,
    ) -> Result<Value> {
        let name = given.get("name").cloned().unwrap_or_default();
        let there = self.call(get, Map::from_iter([("name".to_owned(), name)])).await;
        let etag = match there {
            Ok(file) => file["etag"].clone(),
            Err(error) if error.code() == Code::NotFound => json!(""),
            Err(error) => return Err(error),
        };
        given.insert("etag".to_owned(), etag);
        self.call(put, given).await
    }

    /// Where rule files are in `rules/grpc`, as with wishmock, its names of them are relative to
    /// that.
    async fn put_below_grpc(&self, given: &mut Map<String, Value>) {
        let Some(name) = given.get("name").and_then(Value::as_str).map(str::to_owned) else {
            return;
        };
        let Ok(listed) = self.call("Mocks/ListRules", Map::new()).await else { return };
        let files = listed["files"].as_array().into_iter().flatten();
        let names: Vec<_> = files.filter_map(|file| file["name"].as_str()).collect();
        let has_layout = names.iter().any(|known| known.starts_with("grpc/"));
        if has_layout && !names.contains(&&*name) {
            given.insert("name".to_owned(), Value::String(format!("grpc/{name}")));
        }
    }

    /// What a method answers, as JSON.
    pub(crate) async fn call(&self, name: &str, given: Map<String, Value>) -> Result<Value> {
        let unknown = || Error::unimplemented(format!("this program has no {name}"));
        let method = self.method(name).ok_or_else(unknown)?;
        if !is_read(&method) && self.0.allow == Allow::Read {
            return Err(Error::permission_denied(format!("{name} changes something")));
        }
        // A member that is misspelt is told, wherever the service is.
        let text = Value::Object(given).to_string();
        let message = self.0.schema.decode_exactly(&method.input, text.as_bytes())?;
        let output = method.output.to_string();
        let call = Call::method(
            method,
            Context::default(),
            Codec::Proto,
            Body::Full(message.encode(Codec::Proto)?),
        );
        let reply = self.0.service.call(call).await?;
        let bytes = reply.body.collect(REPLY_BYTES_MAX).await?;
        let message = self.0.schema.decode(&output, Codec::Proto, &bytes)?;
        let text = message.encode(Codec::Json)?;
        serde_json::from_slice(&text).map_err(|why| Error::internal(why.to_string()))
    }
}

/// The arguments of tools that write files, as wishmock calls them.
const FILE: &[(&str, &str)] = &[("filename", "name"), ("content", "text")];

/// Puts our names in place of those of wishmock.
fn rename(given: &mut Map<String, Value>, names: &[(&str, &str)]) {
    for (theirs, ours) in names {
        if let Some(value) = given.remove(*theirs) {
            given.insert((*ours).to_owned(), value);
        }
    }
}

/// Whether a method only looks, as its scopes say. One without scopes is not for everybody.
fn is_read(method: &Method) -> bool {
    let reader = Principal::new("admin", "reader").with_scope("admin.read");
    let access = method.access.as_ref();
    access.is_some_and(|access| {
        matches!(access, Access::Scopes(_)) && access.lacking(&reader).next().is_none()
    })
}

/// The arguments of a tool where they are not those of its method.
fn adapt(schema: &mut Map<String, Value>, does: ToolAction) {
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    match does {
        ToolAction::Action { actions, .. } => {
            properties.insert("action".to_owned(), json!({"enum": actions}));
            schema.insert("required".to_owned(), json!(["name", "action"]));
        }
        ToolAction::Wishmock { .. } | ToolAction::Overwrite { .. } => {
            let arguments = match does {
                ToolAction::Wishmock { arguments, .. } => arguments,
                _ => FILE,
            };
            properties.retain(|name, _| arguments.iter().any(|(_, ours)| ours == name));
            for (theirs, ours) in arguments {
                if let Some(value) = properties.remove(*ours) {
                    properties.insert((*theirs).to_owned(), value);
                }
            }
            let names: Vec<_> = arguments.iter().map(|(theirs, _)| *theirs).collect();
            schema.insert("required".to_owned(), json!(names));
        }
        ToolAction::Method(_) | ToolAction::ByHand | ToolAction::Load | ToolAction::Examples => {}
    }
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tools").field("allow", &self.0.allow).finish_non_exhaustive()
    }
}

const REPLY_BYTES_MAX: usize = 8 << 20;

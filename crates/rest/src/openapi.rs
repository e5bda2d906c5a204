//! The OpenAPI 3.1 document of a server's REST bindings, from the same descriptors that serve them.
//!
//! A variable of several segments becomes one parameter for each of its wildcards, since a path
//! parameter of OpenAPI is one segment: `{name=shelves/*}` is `shelves/{name}`. Bindings of verbs
//! that OpenAPI does not know are left out. Without bindings there is no document. Its size is
//! bounded by that of the schema: of nested messages, the first 256 query parameters of a method
//! are listed.

mod rules;
mod schema;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use buffa_descriptor::{
    DescriptorPool, FieldDescriptor, FieldKind, MessageDescriptor, SingularKind,
};
use serde_json::{Map, Value, json};

use self::schema::Schemas;
use crate::binding::Binding;
use crate::describe::{Describe, FieldRules};
use crate::field::{list, well_known};
use crate::options::{ErrorFormat, JsonOptions, RestOptions, printed_name};
use crate::origin::comment;
use crate::plan::BodyRule;
use tidewire_proto::http::Segment;
use tidewire_service::Access;

/// The document as JSON.
pub(crate) fn document(
    bindings: &[Arc<Binding>],
    options: &RestOptions,
    describe: &dyn Describe,
) -> String {
    let mut document = Document::new(options, describe);
    for binding in bindings {
        document.add(binding);
    }
    let mut services: Vec<_> = bindings.iter().map(|b| &*b.method.service).collect();
    services.dedup();
    let title = options.title.clone().unwrap_or_else(|| list(services.iter().copied()));
    let tags: Vec<_> = services.iter().map(|name| json!({ "name": name })).collect();
    let mut schemas = document.schemas.done();
    rules::apply(&mut schemas, bindings, describe);
    schemas.insert(ERROR.to_owned(), error_schema(options.errors));
    let mut components = json!({ "schemas": schemas });
    if !options.security.is_empty() {
        let schemes = options.security.iter();
        let schemes = schemes.map(|scheme| (scheme.name().to_owned(), scheme.described()));
        components["securitySchemes"] = Value::Object(schemes.collect());
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": title, "version": options.version },
        "tags": tags,
        "paths": document.paths,
        "components": components,
    })
    .to_string()
}

struct Document<'a> {
    options: &'a RestOptions,
    describe: &'a dyn Describe,
    paths: BTreeMap<String, Map<String, Value>>,
    /// Paths by what they match, so that two spellings of one path become one.
    by_shape: BTreeMap<String, (String, Vec<String>)>,
    /// How many operations a method has so far.
    operations: HashMap<String, usize>,
    schemas: Schemas,
}

impl<'a> Document<'a> {
    fn new(options: &'a RestOptions, describe: &'a dyn Describe) -> Self {
        Self {
            options,
            describe,
            paths: BTreeMap::new(),
            by_shape: BTreeMap::new(),
            operations: HashMap::new(),
            schemas: Schemas::default(),
        }
    }

    fn add(&mut self, binding: &Binding) {
        let verb = binding.verb.as_ref().map(|verb| verb.as_str().to_ascii_lowercase());
        let Some(verb) = verb.filter(|verb| VERBS.contains(&&**verb)) else { return };
        let (mut path, parameters) = Path::of(binding);
        let shape = path.shape;
        let names = path.names;
        let known = self.by_shape.entry(shape);
        (path.text, path.names) = known.or_insert((path.text, names)).clone();
        if self.paths.get(&path.text).is_some_and(|verbs| verbs.contains_key(&verb)) {
            return;
        }
        let operation = self.operation(binding, &path.names, &parameters);
        self.paths.entry(path.text).or_default().insert(verb, operation);
    }

    fn operation(&mut self, binding: &Binding, names: &[String], path: &[Value]) -> Value {
        let pool = binding.request.schema.pool();
        let method = &binding.method;
        let mut parameters = Vec::new();
        for (name, schema) in names.iter().zip(path) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "schema": schema,
            }));
        }
        if binding.request.body != BodyRule::Whole {
            self.query(binding, &mut parameters);
        }
        if !method.is_query() {
            parameters.push(command_key());
        }
        let error = match self.options.errors {
            ErrorFormat::Connect => "application/json",
            ErrorFormat::Problem => "application/problem+json",
        };
        let status = method.http_status.unwrap_or(200);
        let mut operation = json!({
            "operationId": self.operation_id(binding),
            "tags": [method.service],
            "responses": {
                (status.to_string()): self.reply(binding, status),
                "default": {
                    "description": "An error.",
                    "content": { (error): { "schema": reference(ERROR) } },
                },
            },
        });
        if let Some(security) = self.security(binding) {
            operation["security"] = security;
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        if let Some(body) = self.body(binding) {
            operation["requestBody"] = body;
        }
        if let (Some(service), Some(of_method)) =
            (binding.service_descriptor(), binding.method_descriptor())
        {
            if let Some(text) = comment(pool, service, of_method) {
                operation["description"] = text.into();
            }
            if of_method.options().and_then(|options| options.deprecated) == Some(true) {
                operation["deprecated"] = true.into();
            }
        }
        operation
    }

    /// What a caller has to show: any one of what the server knows callers by, or nothing.
    fn security(&self, binding: &Binding) -> Option<Value> {
        let schemes = &self.options.security;
        if schemes.is_empty() {
            return None;
        }
        if self.describe.access(&binding.method) == Access::Anonymous {
            return Some(json!([]));
        }
        let each = schemes.iter().map(|scheme| json!({ (scheme.name()): [] }));
        Some(each.collect())
    }

    /// The method, and a number from its second binding on.
    fn operation_id(&mut self, binding: &Binding) -> String {
        let id = format!("{}.{}", binding.method.service, binding.method.method);
        let count = self.operations.entry(id.clone()).or_default();
        *count += 1;
        if *count == 1 { id } else { format!("{id}_{count}") }
    }

    /// What a query can hold: fields that neither path nor body fill.
    fn query(&mut self, binding: &Binding, parameters: &mut Vec<Value>) {
        let request = &binding.request;
        let mut taken: Vec<_> =
            request.path.iter().map(|path| path.field.steps().to_vec()).collect();
        if let BodyRule::Field { number, .. } = request.body {
            taken.push(vec![number]);
        }
        let mut walk = QueryWalk {
            pool: request.schema.pool(),
            json: binding.json,
            taken,
            above: Vec::new(),
            schemas: &mut self.schemas,
            rules: &|message| self.describe.rules(&request.schema, message),
            left: PARAMETERS_MAX,
            parameters,
        };
        walk.message(request.descriptor(), "", &mut Vec::new());
    }

    fn body(&mut self, binding: &Binding) -> Option<Value> {
        let pool = binding.request.schema.pool();
        let message = binding.request.index;
        let schema = match &binding.request.body {
            BodyRule::None => return None,
            _ if binding.request.raw => json!({}),
            BodyRule::Whole => self.schemas.of(pool, SingularKind::Message(message), binding.json),
            BodyRule::Field { number, .. } => {
                let field = pool.message(message).field(*number)?;
                self.schemas.of_field(pool, field, binding.json)
            }
        };
        let content_type = match (binding.request.raw, binding.method.kind.client_streams()) {
            (true, _) => "*/*",
            (false, true) => NDJSON,
            (false, false) => "application/json",
        };
        let mut described = json!({ "content": { (content_type): { "schema": schema } } });
        if self.needs_body(binding) {
            described["required"] = true.into();
        }
        Some(described)
    }

    /// Whether a request without a body lacks what a rule asks for.
    fn needs_body(&self, binding: &Binding) -> bool {
        let request = &binding.request;
        let in_path = |number: u32| request.path.iter().any(|path| path.field.steps() == [number]);
        let rules = self.describe.rules(&request.schema, request.descriptor().full_name());
        let mut required = rules.iter().filter(|rule| rule.is_required);
        match request.body {
            BodyRule::Whole => required.any(|rule| !in_path(rule.number)),
            BodyRule::Field { number, .. } => required.any(|rule| rule.number == number),
            BodyRule::None => false,
        }
    }

    fn reply(&mut self, binding: &Binding, status: u16) -> Value {
        let mut reply = json!({ "description": "A success." });
        if status == 204 {
            return reply;
        }
        let pool = binding.request.schema.pool();
        let Some(method) = binding.method_descriptor() else { return reply };
        let output = pool.message(method.output());
        let schema = match binding.reply.field.and_then(|number| output.field(number)) {
            _ if binding.reply.raw => json!({}),
            Some(field) => self.schemas.of_field(pool, field, binding.json),
            None => self.schemas.of(pool, SingularKind::Message(method.output()), binding.json),
        };
        reply["content"] = match (binding.reply.raw, binding.method.kind.server_streams()) {
            (true, _) => json!({ "*/*": { "schema": schema } }),
            (false, false) => json!({ "application/json": { "schema": schema } }),
            (false, true) if binding.method.kind.client_streams() => {
                json!({ (NDJSON): { "schema": schema } })
            }
            (false, true) => json!({
                "application/json": { "schema": { "type": "array", "items": schema } },
                (NDJSON): { "schema": schema },
            }),
        };
        reply
    }
}

/// A path as OpenAPI has it.
struct Path {
    text: String,
    /// The same without names.
    shape: String,
    names: Vec<String>,
}

impl Path {
    /// The path of a binding and the schemas of its parameters.
    fn of(binding: &Binding) -> (Self, Vec<Value>) {
        let template = &binding.template;
        let mut path = Self { text: String::new(), shape: String::new(), names: Vec::new() };
        let mut schemas = Vec::new();
        for (index, segment) in template.segments.iter().enumerate() {
            if let Segment::Literal(text) = segment {
                path.text = format!("{}/{text}", path.text);
                path.shape = format!("{}/{text}", path.shape);
                continue;
            }
            let variable = template.variables.iter().position(|v| v.segments.contains(&index));
            let (name, schema) = match variable {
                None => (format!("segment_{}", index + 1), json!({ "type": "string" })),
                Some(at) => Self::parameter(binding, at, index),
            };
            path.text = format!("{}/{{{name}}}", path.text);
            path.shape.push_str("/{}");
            path.names.push(name);
            schemas.push(schema);
        }
        let verb = template.verb.as_ref().map_or_else(String::new, |verb| format!(":{verb}"));
        let root = if template.segments.is_empty() { "/" } else { "" };
        path.text = format!("{}{root}{verb}", path.text);
        path.shape = format!("{}{root}{verb}", path.shape);
        (path, schemas)
    }

    fn parameter(binding: &Binding, at: usize, index: usize) -> (String, Value) {
        let variable = &binding.template.variables[at];
        let segments = &binding.template.segments;
        let is_wild = |index: &usize| !matches!(segments[*index], Segment::Literal(_));
        let wild: Vec<_> = variable.segments.clone().filter(is_wild).collect();
        let name = match wild.iter().position(|wild| *wild == index) {
            Some(nth) if wild.len() > 1 => format!("{}_{}", variable.field, nth + 1),
            _ => variable.field.clone(),
        };
        if !variable.single {
            return (name, json!({ "type": "string" }));
        }
        let kind = binding.request.path[at].field.kind;
        (name, schema::of_kind(binding.request.schema.pool(), kind, binding.json))
    }
}

/// Walks a request message for what can be named in a query.
struct QueryWalk<'a> {
    pool: &'a DescriptorPool,
    json: JsonOptions,
    taken: Vec<Vec<u32>>,
    /// Names of the messages that we are in.
    above: Vec<&'a str>,
    schemas: &'a mut Schemas,
    rules: &'a dyn Fn(&str) -> Vec<FieldRules>,
    /// How many parameters may still be listed.
    left: usize,
    parameters: &'a mut Vec<Value>,
}

impl<'a> QueryWalk<'a> {
    fn message(&mut self, message: &'a MessageDescriptor, prefix: &str, steps: &mut Vec<u32>) {
        let repeats = self.above.contains(&message.full_name());
        if repeats || self.above.len() >= NESTED_MAX || self.left == 0 {
            return;
        }
        self.above.push(message.full_name());
        let rules = (self.rules)(message.full_name());
        for field in message.fields() {
            steps.push(field.number());
            if !self.taken.contains(steps) {
                let rules = rules.iter().find(|rules| rules.number == field.number());
                self.field(field, prefix, (steps, rules));
            }
            steps.pop();
        }
        self.above.pop();
    }

    fn field(
        &mut self,
        field: &FieldDescriptor,
        prefix: &str,
        (steps, rules): (&mut Vec<u32>, Option<&FieldRules>),
    ) {
        let name = format!("{prefix}{}", printed_name(field, self.json));
        let (kind, repeated) = match field.kind() {
            FieldKind::Map { .. } => return,
            FieldKind::Singular(kind) => (kind, false),
            FieldKind::List(kind) => (kind, true),
        };
        if let SingularKind::Message(index) = kind {
            let inner = self.pool.message(index);
            match well_known(inner.full_name()) {
                Some(Some(_)) => {}
                None if !repeated => {
                    return self.message(inner, &format!("{name}."), steps);
                }
                _ => return,
            }
        }
        let Some(left) = self.left.checked_sub(1) else { return };
        self.left = left;
        let mut schema = self.schemas.of_field(self.pool, field, self.json);
        if let Some(rules) = rules {
            rules::add(&mut schema, rules);
        }
        let mut parameter = json!({ "name": name, "in": "query", "schema": schema });
        // What is within a message is asked for only where that is there.
        if prefix.is_empty() && rules.is_some_and(|rules| rules.is_required) {
            parameter["required"] = true.into();
        }
        self.parameters.push(parameter);
    }
}

/// The key by which a command is known that comes again.
fn command_key() -> Value {
    json!({
        "name": "Idempotency-Key",
        "in": "header",
        "schema": { "type": "string", "minLength": 1, "maxLength": 255 },
        "description": "The same each time that this command is sent again; a method that keeps \
                        keys runs it once.",
    })
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn error_schema(errors: ErrorFormat) -> Value {
    let detail = json!({
        "type": "object",
        "properties": { "type": { "type": "string" }, "value": { "type": "string" } },
    });
    let details = json!({ "type": "array", "items": detail });
    let text = json!({ "type": "string" });
    match errors {
        ErrorFormat::Connect => json!({
            "type": "object",
            "required": ["code", "message"],
            "properties": { "code": text, "message": text, "details": details },
        }),
        ErrorFormat::Problem => json!({
            "type": "object",
            "required": ["title", "status", "detail", "code"],
            "properties": {
                "title": text, "status": { "type": "integer" }, "detail": text, "code": text,
                "details": details,
            },
        }),
    }
}

const VERBS: [&str; 8] = ["get", "put", "post", "delete", "options", "head", "patch", "trace"];
const ERROR: &str = "Error";
const NDJSON: &str = "application/x-ndjson";

/// How many query parameters of a method are listed.
const PARAMETERS_MAX: usize = 256;

/// How deep query parameters of nested messages are listed.
const NESTED_MAX: usize = 4;

//! A method at a verb and a path: everything that can be worked out before the first request.

use std::fmt;
use std::sync::Arc;

use buffa::Message as _;
use buffa_descriptor::{
    FieldDescriptor, FieldKind, MessageDescriptor, MethodDescriptor, ServiceDescriptor,
    SingularKind,
};
use tidewire_schema::Schema;
use tidewire_service::{Format, Interface, Method};

use crate::annotation::{Rule, rules};
use crate::error::RestError;
use crate::field::{ResolveError, list, resolve};
use crate::options::{JsonOptions, RestOptions};
use crate::origin::Origin;
use crate::plan::{BodyRule, PathField, RequestPlan};
use crate::reply::ReplyPlan;
use crate::router::Verb;
use tidewire_proto::http::Template;

/// A method at a verb and a path.
pub struct Binding {
    pub(crate) method: Method,
    /// The place of its interface among those of the table.
    pub(crate) interface: usize,
    pub(crate) options: Arc<RestOptions>,
    pub(crate) verb: Verb,
    pub(crate) template: Template,
    pub(crate) request: RequestPlan,
    pub(crate) reply: ReplyPlan,
    pub(crate) origin: Origin,
    pub(crate) json: JsonOptions,
    /// What its bodies are, as no other binding's: for whoever keeps them.
    pub(crate) format: Format,
    /// See [`Binding::edition`].
    pub(crate) edition: String,
}

/// The bindings of a service.
///
/// # Errors
/// An annotation that does not fit its method, with where it is.
pub(crate) fn bindings(
    schema: &Schema,
    (place, interface): (usize, &Interface),
    options: &Arc<RestOptions>,
) -> Result<Vec<Binding>, RestError> {
    try_bindings(schema, (place, interface), options)
        .into_iter()
        .map(|made| made.map(|(binding, _)| binding).map_err(|fault| fault.error()))
        .collect()
}

/// An annotation that does not fit its method.
pub(crate) struct Fault {
    pub(crate) origin: Origin,
    /// The path that it is about; none when the annotation as a whole makes no sense.
    pub(crate) template: Option<String>,
    pub(crate) why: String,
}

impl Fault {
    fn error(&self) -> RestError {
        match &self.template {
            Some(template) => self.origin.error(&format!("{template:?}: {}", self.why)),
            None => self.origin.error(&self.why),
        }
    }
}

/// Each binding of a service, with what was written, or why it is invalid.
pub(crate) fn try_bindings(
    schema: &Schema,
    (place, interface): (usize, &Interface),
    options: &Arc<RestOptions>,
) -> Vec<Result<(Binding, Rule), Fault>> {
    let mut found = Vec::new();
    let pool = schema.pool();
    let Some(descriptor) = pool.service_by_name(interface.name()) else { return found };
    let json = options.services.get(interface.name()).copied().unwrap_or(options.json);
    for method in interface.methods() {
        let Some(of_method) = descriptor.method(&method.method) else { continue };
        let origin = Origin::of(pool, descriptor, of_method);
        let encoded = of_method.options().map(|options| options.encode_to_vec());
        let rules = match rules(&encoded.unwrap_or_default()) {
            Ok(rules) => rules,
            Err(why) => {
                found.push(Err(Fault { origin, template: None, why }));
                continue;
            }
        };
        for rule in rules {
            let maker = Maker { schema, place, method, of_method, options, json };
            let binding = maker.binding(&rule, origin.clone());
            found.push(match binding {
                Ok(binding) => Ok((binding, rule)),
                Err(why) => {
                    Err(Fault { origin: origin.clone(), template: Some(rule.template), why })
                }
            });
        }
    }
    found
}

/// Puts bindings of one method together.
struct Maker<'a> {
    schema: &'a Schema,
    place: usize,
    method: &'a Method,
    of_method: &'a MethodDescriptor,
    options: &'a Arc<RestOptions>,
    json: JsonOptions,
}

impl Maker<'_> {
    fn binding(&self, rule: &Rule, origin: Origin) -> Result<Binding, String> {
        let template = Template::parse(&rule.template).map_err(|error| error.to_string())?;
        let pool = self.schema.pool();
        let input = pool.message(self.of_method.input());
        let (body, raw) = self.body(rule, input)?;
        if self.method.kind.client_streams() && body == BodyRule::None {
            return Err("a method with a request stream needs a `body`".to_owned());
        }
        let mut path = Vec::new();
        for variable in &template.variables {
            let field = resolve(pool, self.of_method.input(), &variable.field);
            let field = field.map_err(ResolveError::into_why)?;
            if field.repeated {
                return Err(format!("{} is repeated, so no path can fill it", variable.field));
            }
            if let BodyRule::Field { number, .. } = &body
                && (field.steps() == [*number] || raw && field.steps()[0] == *number)
            {
                return Err(format!("{} is filled by path and body", variable.field));
            }
            path.push(PathField { variable: variable.clone(), field });
        }
        let schema = self.schema.clone();
        let message = input.full_name().to_owned();
        let index = self.of_method.input();
        Ok(Binding {
            method: self.method.clone(),
            interface: self.place,
            options: Arc::clone(self.options),
            verb: rule.verb.clone(),
            template,
            request: RequestPlan { schema, message, index, body, raw, path },
            reply: self.reply(&rule.response_body)?,
            origin,
            json: self.json,
            format: Format::unique(),
            edition: self.edition(&rule.response_body),
        })
    }

    /// A hash of all that decides how a reply is printed.
    fn edition(&self, response_body: &str) -> String {
        let Self { schema, method, json, .. } = self;
        let version = env!("CARGO_PKG_VERSION");
        let how = format!("{version} {} {response_body} {json:?}", method.output);
        format!("{:016x}", schema.edition(how.as_bytes()))
    }

    fn body(&self, rule: &Rule, input: &MessageDescriptor) -> Result<(BodyRule, bool), String> {
        match &*rule.body {
            "" => Ok((BodyRule::None, false)),
            "*" => Ok((BodyRule::Whole, input.full_name() == HTTP_BODY)),
            name => {
                let field = field_of(input, "body", name)?;
                let rule =
                    BodyRule::Field { number: field.number(), name: field.name().to_owned() };
                Ok((rule, self.is_http_body(field)))
            }
        }
    }

    fn reply(&self, response_body: &str) -> Result<ReplyPlan, String> {
        let output = self.schema.pool().message(self.of_method.output());
        let field = match response_body {
            "" => None,
            name => Some(field_of(output, "response_body", name)?),
        };
        Ok(ReplyPlan {
            schema: self.schema.clone(),
            message: output.full_name().to_owned(),
            field: field.map(FieldDescriptor::number),
            raw: match field {
                None => output.full_name() == HTTP_BODY,
                Some(field) => self.is_http_body(field),
            },
            style: self.json.style(),
        })
    }

    fn is_http_body(&self, field: &FieldDescriptor) -> bool {
        matches!(field.kind(), FieldKind::Singular(SingularKind::Message(index))
            if self.schema.pool().message(index).full_name() == HTTP_BODY)
    }
}

fn field_of<'a>(
    message: &'a MessageDescriptor,
    option: &str,
    name: &str,
) -> Result<&'a FieldDescriptor, String> {
    message.field_by_name(name).ok_or_else(|| {
        format!(
            "`{option}: {name:?}` is not a field of {}; it has {}",
            message.full_name(),
            list(message.fields().iter().map(FieldDescriptor::name))
        )
    })
}

impl Binding {
    /// The method that it is for.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The place of its service's interface among those that the table was made of.
    pub fn interface(&self) -> usize {
        self.interface
    }

    /// How requests are read and errors are printed.
    pub fn options(&self) -> &RestOptions {
        &self.options
    }

    /// What its bodies are, as no other binding's: for whoever keeps them.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Names how replies are printed: with another schema, other settings or another version of
    /// this program the same message may have other bytes, and so needs another tag. The same on
    /// every host.
    pub fn edition(&self) -> &str {
        &self.edition
    }

    /// Whether the body of a request is the bytes of a `google.api.HttpBody`: each chunk of a
    /// request stream is a message then, not each line.
    pub fn takes_raw_bytes(&self) -> bool {
        self.request.raw
    }

    /// The verb and the template, as messages name the binding.
    pub fn route(&self) -> String {
        let verb = self.verb.as_ref().map_or("*", |verb| verb.as_str());
        format!("{verb} {}", self.template.text)
    }

    pub(crate) fn service_descriptor(&self) -> Option<&ServiceDescriptor> {
        self.request.schema.pool().service_by_name(&self.method.service)
    }

    pub(crate) fn method_descriptor(&self) -> Option<&MethodDescriptor> {
        self.service_descriptor()?.method(&self.method.method)
    }
}

impl fmt::Debug for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.route(), self.method.path)
    }
}

const HTTP_BODY: &str = "google.api.HttpBody";
